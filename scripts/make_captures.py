#!/usr/bin/env python3
"""Make the labelled captures in captures/ (needs the development environment).

Usage: scripts/make_captures.py [NAME...] [--out DIR] [--force] [--list]

Writes NAME.pcap (or .pcapng, .pcap.gz), NAME.json with what is true in it, NAME.keys where the
TLS secrets are given, and README.md with a table of all. Captures without TLS come out the
same, byte for byte, in every run. TLS handshakes are random, so those captures (`random` in
their truth) are made only if they don't exist, if they are named, or with --force.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from capture_maker import scenarios  # noqa: F401 - registers them
from capture_maker.make import make, readme
from capture_maker.stage import SCENARIOS

CAPTURES = Path(__file__).resolve().parent.parent / "captures"


def main() -> int:
    """Make the captures that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path, default=CAPTURES, help="folder to write to")
    parser.add_argument("--force", action="store_true", help="make random ones anew, too")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in SCENARIOS]
    if unknown:
        print(f"no such capture: {', '.join(unknown)}", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(SCENARIOS))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or SCENARIOS:
        state = make(SCENARIOS[name], options.out, force=options.force or bool(options.names))
        print(f"{name}: {state}")
    (options.out / "README.md").write_text(readme(options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
