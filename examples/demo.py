"""The demonstration, `gradproof demo`: which operation of a model is wrong, and where? It writes build/demo.html.

An argument names the backend: torch, jax or numpy.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gradproof.demo import main

if __name__ == "__main__":
    sys.exit(main(Path("build") / "demo.html", *sys.argv[1:2]))
