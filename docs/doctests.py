"""An extension of griffe: examples in docstrings are shown as code. Markdown takes `>>>` for three quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

# From a prompt to the next empty line, or to the end.
_EXAMPLE = re.compile(r"^>>> .*?(?=\n[ ]*\n|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
