"""The `gradproof` command, also as `python -m gradproof`."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line, or say what it needs."""
    if find_spec("typer") is None:
        sys.stderr.write("the gradproof command needs typer: pip install 'gradproof[cli]'\n")
        raise SystemExit(2)
    from gradproof.cli import app

    app()


if __name__ == "__main__":
    main()
