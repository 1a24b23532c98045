"""What `gradproof check` is asked to check: `module_or_file:target`, resolved to named cases.

A case is `(func, inputs)`, `(func, inputs, kwargs)` or `(func, inputs, kwargs, options)`, with options of
`gradproof.check` for this case alone: `{"grad": ...}`, say. A target is a case, a function without parameters that
returns one, or a list, a dictionary or a generator of either. Without a target, every `case_*` of the module is one.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard, TypeVar, cast

from gradproof.results.run import Crash

F = TypeVar("F")

_PREFIX = "case_"


class TargetError(Exception):
    """There is no such target, or it is none."""


class MissingError(TargetError):
    """What was named is not there."""


@dataclass(frozen=True, slots=True)
class Case:
    """A function with its arguments, by name."""

    name: str
    func: Callable[..., Any]
    inputs: Any
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Those of `gradproof.check` that belong to this case."""


@dataclass(frozen=True, slots=True)
class NoCase:
    """What stands where a case should, by name, and why it is none."""

    name: str
    why: str


Found = Case | Crash | NoCase


def find_cases(target: str) -> list[Case | Crash]:
    """The cases that a target names; `TargetError` if there is none. Where making a case raises, there is its crash."""
    return _some(target, [*cases_of(target)])


def find_cases_among(target: str) -> list[Found]:
    """The same, and what is no case beside others; `TargetError` if there is nothing else."""
    found = _some(target, [*_found(target)])
    for each in found:
        if not isinstance(each, NoCase):
            return found
    return [*cases_of(target)]  # which says what it is


def cases_of(target: str) -> Iterator[Case | Crash]:
    """The cases that a target names, each made when it is asked for; `TargetError` for what is none."""
    for found in _found(target):
        if isinstance(found, NoCase):
            raise TargetError(f"{found.name}: {found.why}")
        yield found


def found_in(target: str) -> Iterator[Found]:
    """The same, and what is no case among them: that is told, and the others are cases all the same."""
    return _found(target)


def _some(target: str, found: list[F]) -> list[F]:
    if not found:
        raise TargetError(f"{target} has no cases: name a target, or functions {_PREFIX}*")
    return found


def _found(target: str) -> Iterator[Found]:
    path, separator, name = _split(target)
    module = _load(path)
    if separator:
        named = [(name, _attribute(module, name, path))]
    else:
        named = [(key, value) for key, value in vars(module).items() if key.startswith(_PREFIX)]
    for key, value in named:
        yield from _cases(key, value)


def file_of(target: str) -> str:
    """The file or module of a target.

    >>> file_of("cases.py:case_product")
    'cases.py'
    """
    return _split(target)[0]


def _split(target: str) -> tuple[str, str, str]:
    """At the last colon, unless what follows is a path: `C:\\file.py` names a file."""
    path, separator, name = target.rpartition(":")
    if not separator or "/" in name or "\\" in name:
        return target, "", ""
    return path, separator, name


def _load(path: str) -> ModuleType:
    if path.endswith(".py"):
        return _load_file(Path(path))
    with _importable(Path.cwd()):
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name and (path == error.name or path.startswith(f"{error.name}.")):
                raise MissingError(f"there is no module {path!r}") from error
            raise TargetError(f"{path} could not be imported: {error}") from error
        except ValueError as error:
            raise MissingError(f"{path!r} is neither a module nor a file") from error
        except (Exception, SystemExit) as error:
            raise TargetError(f"{path} could not be imported: {type(error).__name__}: {error}") from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise MissingError(f"there is no file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{str(path)!r} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    with _importable(path.resolve().parent):
        sys.modules.setdefault(path.stem, module)  # dataclasses and pickles look their module up
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            raise TargetError(f"{path} could not be run: {type(error).__name__}: {error}") from error
    return module


class _importable:  # noqa: N801 (used as a function, in a with statement)
    """While inside, modules next to the target can be imported, as if it were run from there."""

    def __init__(self, directory: Path) -> None:
        self._entry = str(directory)

    def __enter__(self) -> None:
        sys.path.insert(0, self._entry)

    def __exit__(self, *_: object) -> None:
        sys.path.remove(self._entry)


def _attribute(module: ModuleType, name: str, path: str) -> Any:
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise MissingError(f"{path} has no {name!r}")
        value = getattr(value, part)
    return value


def _cases(name: str, value: Any) -> Iterator[Found]:
    parts = _parts(value)
    if parts and callable(parts[0]):
        yield _case(name, parts)
    elif isinstance(value, Mapping):
        for key, item in cast(Mapping[Any, Any], value).items():
            yield from _cases(f"{name}[{key}]", item)
    elif _is_without_function(parts):
        given = type(parts[0]).__name__
        yield NoCase(name, f"this is no case: expected (func, inputs), got {given} in the place of func")
    elif _is_collection(value):
        yield from _items(name, value)
    elif callable(value):
        needed = _missing_arguments(value)
        yield from [NoCase(name, needed)] if needed else _made(name, value)
    else:
        yield NoCase(name, f"this is no case: expected (func, inputs), got {type(value).__name__}")


def _parts(value: object) -> tuple[Any, ...]:
    return cast(tuple[Any, ...], value) if isinstance(value, tuple) else ()


def _is_without_function(parts: tuple[Any, ...]) -> bool:
    """Whether these are the parts of a case, but for its function."""
    return len(parts) > 1 and not _is_collection(parts[0])


def _is_collection(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether this may be a collection of cases: no text, and no array."""
    return not (isinstance(value, (str, bytes)) or hasattr(value, "__array__")) and isinstance(value, Iterable)


def _items(name: str, items: Iterable[Any]) -> Iterator[Found]:
    """The cases of a collection; a generator that raises ends with a crash."""
    number, rest = 0, None
    while True:
        try:
            rest = iter(items) if rest is None else rest
            item = next(rest)
        except StopIteration:
            return
        except (Exception, SystemExit) as error:
            yield crash_of(f"{name}[{number}]", error)
            return
        yield from _cases(f"{name}[{number}]", item)
        number += 1


def _made(name: str, function: Callable[[], Any]) -> Iterator[Found]:
    try:
        value = function()
    except (Exception, SystemExit) as error:
        yield crash_of(name, error)
        return
    if callable(value):
        yield NoCase(name, "it returned a function: expected (func, inputs)")
    else:
        yield from _cases(name, value)


def crash_of(name: str, error: BaseException) -> Crash:
    """What is reported of an exception; the traceback begins where this package called what raised."""
    frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
    told = "".join(traceback.format_exception(type(error), error, frames))
    return Crash(name, type(error).__qualname__, str(error), told)


def _case(name: str, parts: tuple[Any, ...]) -> Case | NoCase:
    if not 2 <= len(parts) <= 4 or not all(isinstance(part, Mapping) for part in parts[2:]):
        return NoCase(name, "this is no case: expected (func, inputs), and at most kwargs and options as dictionaries")
    return Case(name, *parts)


def _missing_arguments(function: Callable[..., Any]) -> str:
    """Why a function that should make a case cannot be called for it; nothing if it can."""
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError) as error:
        return f"it must be callable without arguments and return (func, inputs): {error}"
    return ""
