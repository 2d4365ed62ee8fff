"""The program ``capture-analyzer``: its commands, and what becomes of their errors."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import PurePath
from typing import Final, NoReturn

import click

from capture_analyzer.cli import exit_codes, output, process
from capture_analyzer.cli.analyze import analyze
from capture_analyzer.cli.detectors import detectors
from capture_analyzer.cli.explain import explain
from capture_analyzer.cli.safe_text import printable
from capture_analyzer.errors import (
    CaptureAnalyzerError,
    CaptureReadError,
    KeyLogError,
    WorkerError,
)
from capture_analyzer.version import __version__

_NAME: Final = "capture-analyzer"
COMPLETE: Final = "_CAPTURE_ANALYZER_COMPLETE"
"""Environment variable by which click's shell completion asks."""

DEBUG: Final = "CAPTURE_ANALYZER_DEBUG"
"""Environment variable: set to 1, an internal error shows its trace-back."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="capture-analyzer %(version)s")
def main() -> None:
    """Say why a request was slow, from a packet capture."""


main.add_command(analyze)
main.add_command(detectors)
main.add_command(explain)


def run() -> NoReturn:
    """Run the program with the arguments of the process, and end it with its exit code."""
    process.settle_numpy()
    process.collect_no_garbage()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal may not know every character
            stream.reconfigure(errors="backslashreplace")
    code = _code_of(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        output.drop()
    except OSError as error:
        code = _unwritten(error)
    process.end(code)


def _code_of(arguments: list[str]) -> int:
    if COMPLETE in os.environ:  # a shell asks for what could follow
        main.main(arguments, prog_name=_NAME)
    try:
        # Not main.main(): it answers a reader that went away with exit code 1, which means
        # something else here.
        with main.make_context(_NAME, arguments) as context:
            code = main.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return exit_codes.USAGE
    except (click.Abort, KeyboardInterrupt):
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        output.drop()
        return exit_codes.DONE
    except WorkerError as error:
        if os.environ.get(DEBUG) == "1":
            click.echo(printable(error.trace), err=True)
        _complain(str(error))
        return exit_codes.INTERNAL
    except CaptureAnalyzerError as error:
        unreadable = isinstance(error, CaptureReadError | KeyLogError)
        _complain(str(error))
        return exit_codes.UNREADABLE if unreadable else exit_codes.USAGE
    except OSError as error:
        return _unwritten(error) if error.errno == errno.ENOSPC else _internal(error)
    except Exception as error:
        return _internal(error)
    return code if isinstance(code, int) else exit_codes.DONE


def _complain(sentence: str) -> None:
    click.echo(f"{_NAME}: {printable(sentence)}", err=True)


def _unwritten(error: OSError) -> int:
    """What was to be printed found no place, such as on a full disk: said once."""
    output.drop()  # or what is still in its buffer fails again, and is complained of again
    _complain(f"the output can't be written: {error.strerror}")
    return exit_codes.USAGE


def _internal(error: Exception) -> int:
    """One sentence; the message of the exception could hold captured text, so it stays out."""
    if os.environ.get(DEBUG) == "1":
        import traceback

        traceback.print_exception(error)
        return exit_codes.INTERNAL
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = ""
    if trace is not None:
        path = PurePath(trace.tb_frame.f_code.co_filename)
        place = f" in {'/'.join(path.parts[-2:])}, line {trace.tb_lineno}"
    _complain(
        f"internal error: {type(error).__name__}{place} (version {__version__}). This is a mistake "
        f"in the program; please report this line, and with {DEBUG}=1 the trace-back it prints."
    )
    return exit_codes.INTERNAL
