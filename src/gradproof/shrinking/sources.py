"""How a file of its own gets a function: by an import from an installed package, else by its source.

The source of a function is followed through the names that it uses: modules are imported, constants are written down,
functions and classes come with their own source. Where something cannot be written, the obstacle says what.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import symtable
import sys
import sysconfig
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from gradproof.backends.shrinkable import Source

_CONSTANTS = (int, float, complex, str, bytes, bool, type(None))


class _Obstacle(Exception):  # noqa: N818 (it never leaves this module)
    pass


def source_of(func: Callable[..., Any], namespaces: tuple[str, ...] = ()) -> Source:
    """How to get a function; `namespaces` are modules in which a function that does not know its own may be.

    >>> source_of(textwrap.dedent)
    Source(text='import textwrap', expression='textwrap.dedent', obstacle='')
    """
    collected = _Collected()
    try:
        expression = _imported(func, collected, namespaces) or collected.callable(func)
    except _Obstacle as obstacle:
        return _by_its_module(func, str(obstacle))
    return Source(collected.text(), expression)


def _by_its_module(func: Any, obstacle: str) -> Source:
    """An import from somebody's folder, where there is a module to import; else a place to be filled in."""
    module, path = getattr(func, "__module__", None), getattr(func, "__qualname__", "")
    found = sys.modules.get(module or "")
    if module and module != "__main__" and found is not None and path and _leads_to(found, path, func):
        return Source(f"import {module}", f"{module}.{path}", f"{obstacle}; it needs the module {module!r} on its path")
    return Source("", "function_under_test", obstacle)


def _imported(func: Any, collected: _Collected, namespaces: tuple[str, ...]) -> str:
    """The name of a function of an installed package, and the import of it; empty if it is none."""
    owner, name = getattr(func, "__self__", None), getattr(func, "__name__", "")
    if isinstance(owner, type):
        module, path = owner.__module__, f"{owner.__qualname__}.{name}"
    else:
        module, path = getattr(func, "__module__", None) or "", getattr(func, "__qualname__", name)
    places = [(module, path), *((namespace, name) for namespace in namespaces)]
    for place, inside in sorted(places, key=lambda each: "._" in f".{each[0]}"):  # private modules last
        found = sys.modules.get(place)
        if found is not None and _is_installed(place) and _leads_to(found, inside, func):
            collected.imports.append(f"import {place}")
            return f"{place}.{inside}"
    return ""


def _leads_to(module: types.ModuleType, path: str, wanted: Any) -> bool:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part, None)
    return value is not None and (value is wanted or value == wanted)


def _is_installed(name: str) -> bool:
    """Whether a module belongs to Python or an installed package, and not to somebody's folder."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return top != "__main__"
    path = getattr(sys.modules.get(top) or importlib.import_module(top), "__file__", None)
    if path is None:
        return False
    folders = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib", "stdlib")}
    return bool(folders & set(Path(path).resolve().parents))


class _Collected:
    """What the file says before it uses the function, in the order in which it must."""

    def __init__(self) -> None:
        self.imports: list[str] = []
        self._definitions: list[str] = []
        self._names: dict[str, Any] = {}

    def text(self) -> str:
        return "\n\n\n".join(filter(None, ["\n".join(dict.fromkeys(self.imports)), *self._definitions]))

    def callable(self, func: Any) -> str:
        """The expression that names a function, a class or a method of a class that is called on it."""
        owner = getattr(func, "__self__", None)
        if isinstance(owner, type):
            return f"{self.callable(owner)}.{func.__name__}"
        if not isinstance(func, types.FunctionType | type):
            raise _Obstacle(f"{_called(func)} is neither a function nor a class whose source could be written down")
        name = func.__name__ if func.__name__ != "<lambda>" else "function_under_test"
        self._define(name, func)
        return name

    def _define(self, name: str, value: Any) -> None:
        if name in self._names:
            if self._names[name] is not value:
                raise _Obstacle(f"the name {name!r} means two different things in its source")
            return
        self._names[name] = value
        if isinstance(value, types.ModuleType):
            self._import_module(name, value)
        elif _is_constant(value):
            self._definitions.append(f"{name} = {value!r}")
        elif _import_of(name, value):
            self.imports.append(_import_of(name, value))
        elif isinstance(value, types.FunctionType | type):
            self._define_by_source(name, value)
        elif isinstance(getattr(value, "__self__", None), type):
            self._definitions.append(f"{name} = {self.callable(value)}")
        else:
            raise _Obstacle(f"it uses {name}, {_called(value)}, which could not be written down")

    def _import_module(self, name: str, module: types.ModuleType) -> None:
        if not _is_installed(module.__name__):
            raise _Obstacle(f"it uses the module {module.__name__!r}, which is not an installed package")
        path = module.__name__
        self.imports.append(f"import {path}" if name == path else f"import {path} as {name}")

    def _define_by_source(self, name: str, value: Any) -> None:
        text = _text_of(name, value)
        known = _known_to(value)
        for used in sorted(_names_in(text) - {name, value.__name__}):
            if used in known:
                self._define(used, known[used])
            elif not hasattr(builtins, used):
                raise _Obstacle(f"it uses {used!r}, which could not be found")
        self._definitions.append(text)
        if value.__name__ not in (name, "<lambda>"):
            self._names.setdefault(value.__name__, value)
            self._definitions.append(f"{name} = {value.__name__}")


def _is_constant(value: Any) -> bool:
    parts = cast(tuple[Any, ...], value) if isinstance(value, tuple) else (value,)
    return all(isinstance(part, _CONSTANTS) and repr(part) not in ("nan", "inf", "-inf") for part in parts)


def _called(value: Any) -> str:
    return f"a value of type {type(value).__qualname__}"


def _import_of(name: str, value: Any) -> str:
    """The import of something that an installed module has by its name; empty if there is none."""
    module, own = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(own, str) or module not in sys.modules:
        return ""
    if not _is_installed(module) or not _leads_to(sys.modules[module], own, value):
        return ""
    return f"from {module} import {own}" + ("" if own == name else f" as {name}")


def _text_of(name: str, value: Any) -> str:
    """The source of a function or class; of a lambda, the assignment of it to a name."""
    try:
        if value.__name__ == "<lambda>":
            return f"{name} = {_lambda(value)}"
        text = textwrap.dedent(inspect.getsource(value)).rstrip()
        ast.parse(text)
    except (OSError, TypeError, SyntaxError, IndentationError) as error:
        raise _Obstacle(f"the source of {value.__name__} is not to be had ({error})") from error
    return text


def _lambda(function: types.FunctionType) -> str:
    """The source of a lambda, found in its file by where its body stands."""
    lines, _ = inspect.findsource(function)
    tree = ast.parse("".join(lines))
    spans = set(function.__code__.co_positions())
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            body = node.body
            if (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in spans:
                return ast.unparse(node)
    raise OSError("the lambda was not found in its file")


class _Unannotated(ast.NodeTransformer):
    """Annotations are not evaluated in the file, and what they name is not needed."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def _visit_function(self, node: Any) -> Any:
        node.returns = None
        return self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = _visit_function  # noqa: N815 (names that ast looks for)


def _names_in(text: str) -> set[str]:
    """The names that a piece of source uses and does not define."""
    tree = _Unannotated().visit(ast.parse(text))
    table = symtable.symtable(ast.unparse(tree), "source", "exec")
    return {name for each in _tables(table) for name in _free_in(each)}


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _free_in(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        at_top = table.get_type() == "module"
        if symbol.is_referenced() and (symbol.is_global() or at_top) and not (at_top and symbol.is_assigned()):
            yield symbol.get_name()


def _known_to(value: Any) -> Mapping[str, Any]:
    """What the names in a function or class mean: those of its module, and those that it closes over."""
    if isinstance(value, type):
        module = sys.modules.get(value.__module__)
        known: dict[str, Any] = dict(vars(module)) if module is not None else {}
        for member in vars(value).values():
            function = getattr(member, "__func__", member)
            if isinstance(function, types.FunctionType):
                known |= function.__globals__ | _closed_over(function)
        return known
    return {**value.__globals__, **_closed_over(value)}


def _closed_over(function: types.FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
