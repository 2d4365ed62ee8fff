"""``python -m capture_analyzer`` is the same program as ``capture-analyzer``."""

from __future__ import annotations

from capture_analyzer.cli.main import run

if __name__ == "__main__":
    run()
