"""The demonstration, `gradproof demo`: which operation of a model has a wrong backward? It writes build/demo.html."""

from __future__ import annotations

import sys
from pathlib import Path

from gradproof.demo import main

if __name__ == "__main__":
    sys.exit(main(Path("build") / "demo.html"))
