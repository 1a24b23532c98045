"""Which cases a suite has: each is made once, for its name, and let go.

Where cases will be checked by workers, they are made in a process of its own too: one that ends its process while it is
made (a crash in a kernel, `os._exit`) is a row of the suite, and those before it and other files are checked.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from gradproof.targets import MissingError, NoCase, TargetError, file_of, found_in

_REST = "(its cases)"
"""What stands for cases of a file whose names cannot be found out."""


class CaseId(NamedTuple):
    """A case of a suite: the target that makes it, its number there, and its name, which is its own in the suite."""

    target: str
    number: int
    name: str


class EndedError(TargetError):
    """The process ended in which cases were made."""


class Named(NamedTuple):
    """The name of a case; or of what stands where one should, and why it is none."""

    name: str
    why_none: str = ""


Names = Callable[[str], Iterator[Named]]
"""The names of the cases of a target, as they are made; may raise `TargetError`."""


def names_here(target: str) -> Iterator[Named]:
    """Made in this process."""
    return (Named(each.name, each.why if isinstance(each, NoCase) else "") for each in found_in(target))


def collect(paths: Sequence[str], names: Names = names_here) -> list[CaseId]:
    """The cases of files, of folders (every file in them that has some) and of targets, in order.

    Raises `TargetError` if there is none. A file that cannot be run is one case, which will say why, and so is what is
    no case beside others; unless it is all that there is.
    """
    found: list[CaseId] = []
    none: list[Named] = []
    targets = [*_targets(paths)]
    for target, must_have in targets:
        before, file = len(found), file_of(target)
        try:
            for number, named in enumerate(names(target)):
                found.append(CaseId(target, number, f"{file}::{named.name}"))
                none += [named] if named.why_none else []
            if must_have and len(found) == before:
                raise MissingError(f"{target} has no cases: name a target, or functions case_*")
        except TargetError as error:
            is_all = len(targets) == 1 and not (isinstance(error, EndedError) and found)
            if is_all or isinstance(error, MissingError):
                raise
            found.append(CaseId(target, len(found) - before, f"{file}::{_REST}"))
    if not found:
        raise TargetError(f"{', '.join(paths)}: there are no cases")
    if len(none) == len(found):
        raise TargetError(f"{none[0].name}: {none[0].why_none}")
    _require_different(case.name for case in found)
    return found


def collect_apart(paths: Sequence[str]) -> list[CaseId]:
    """The same, in a process of its own, which a case may end."""
    with _Apart() as names:
        return collect(paths, names)


def _targets(paths: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each with whether it must have cases."""
    for path in paths:
        folder = Path(path)
        if folder.is_dir():
            yield from ((file.as_posix(), False) for file in sorted(folder.rglob("*.py")) if _has_cases(file))
        else:
            yield path, True


def _has_cases(file: Path) -> bool:
    """Whether a file of a folder defines cases, as far as its text tells: others are not run."""
    return "case_" in file.read_text(encoding="utf-8", errors="replace")


def _require_different(names: Iterable[str]) -> None:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise TargetError(f"cases must have names of their own, but these are there twice: {', '.join(twice[:5])}")


class _Apart:
    """Names of cases that are made in a process of its own, which is started anew where it ended."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._connection: Connection[Any, Any] | None = None

    def __enter__(self) -> Names:
        return self._names

    def __exit__(self, *_: object) -> None:
        if self._connection is not None and self._process is not None:
            self._connection.close()
            self._process.terminate()
            self._process.join()

    def _names(self, target: str) -> Iterator[Named]:
        connection = self._started()
        try:
            connection.send(target)
            while True:
                named, error = connection.recv()
                if error is not None:
                    raise error
                if named is None:
                    return
                yield named
        except (EOFError, OSError) as error:
            raise EndedError(f"{target} ended its process while its cases were made{self._exit_code()}") from error

    def _started(self) -> Connection[Any, Any]:
        if self._connection is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve_names, args=(theirs,))
            self._process.start()
            theirs.close()  # so that its end is seen here when the process ends
        return self._connection

    def _exit_code(self) -> str:
        process, self._process, self._connection = self._process, None, None
        assert process is not None
        process.join(1.0)
        return "" if process.exitcode is None else f" (exit code {process.exitcode})"


def _serve_names(connection: Connection[Any, Any]) -> None:
    """In that process: names one by one, then None; or an error."""
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            target = connection.recv()
            error: TargetError | None = None
            try:
                for named in names_here(target):
                    connection.send((named, None))
            except TargetError as raised:
                error = raised
            connection.send((None, error))
