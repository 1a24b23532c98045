"""Reports as JSON documents, and back. `docs/json.md` describes the schema; a change of it is a new version.

A document holds what the dataclasses of a Report hold, under the same names, with four exceptions that keep it strict,
small and safe JSON: a number that JSON does not know is written as "nan", "inf" or "-inf"; an enum as its member's
name; a block as its number in the table `blocks`; an exception as its type's name and its text. What scripts like to
read but follows from the rest (`verdict`, `message`) is written too, and ignored on reading. Reading builds nothing but
these dataclasses.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from gradproof.core.space import Block, Elements
from gradproof.results.audit import AuditReport
from gradproof.results.finding import Finding
from gradproof.results.report import Report
from gradproof.results.run import Checked, Crash, Run
from gradproof.results.same import RecordedError, told_of

REPORT = "gradproof.report/3"
RUN = "gradproof.run/3"
_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
# What a document says besides the fields of a dataclass: it follows from them.
_DERIVED: dict[type, tuple[str, ...]] = {Report: ("verdict",), Finding: ("message",), AuditReport: ("verdict",)}
# What documents of the same version may lack, because they were written before there was such a field.
_LATER: dict[type, dict[str, Any]] = {Report: {"second": [[], []]}, Finding: {"order": 1, "unjudged": 0}}

NamedReports = Sequence[tuple[str, Report]]


def dump_report(report: Report) -> str:
    """A report as a document."""
    return as_text(_document(report))


def load_report(text: str) -> Report:
    """The report in a document."""
    return _report(parsed(text, REPORT))


def dump_run(run: Run | NamedReports) -> str:
    """Several reports, with their names, and what else is known of a run, as one document."""
    made = Run.of(run)
    checks = [
        {
            "name": each.name,
            "expected": each.expected,
            "torch": each.torch,
            "torch_seconds": each.torch_seconds,
            "report": _document(each.report),
        }
        for each in made.checks
    ]
    crashes = [dataclasses.asdict(crash) for crash in made.crashes]
    return as_text({"schema": RUN, "reports": checks, "crashes": crashes, "comparisons": list(made.comparisons)})


def load_run(text: str) -> Run:
    """The reports in a document of either kind, with their names."""
    document = parsed(text, RUN, REPORT)
    if document["schema"] == REPORT:
        report = _report(document)
        return Run((Checked(report.subject, report),))
    try:
        checks = [_check(row, f"reports[{k}]") for k, row in enumerate(document["reports"])]
        crashes = [Reader(()).read(Crash, row, f"crashes[{k}]") for k, row in enumerate(document["crashes"])]
        return Run(tuple(checks), tuple(crashes), tuple(_checked(document["comparisons"], list, "comparisons")))
    except (KeyError, TypeError) as error:
        raise refusal(error) from error


def _check(row: Mapping[str, Any], where: str) -> Checked:
    report = _report(_of_schema(row["report"], REPORT))
    kinds = {"name": str, "expected": bool, "torch": str, "torch_seconds": float}
    values = {name: Reader(()).read(kind, row[name], f"{where}.{name}") for name, kind in kinds.items()}
    return Checked(report=report, **values)


def as_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, allow_nan=False, indent=1) + "\n"


def parsed(text: str, *schemas: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is no JSON document: {error}") from error
    return _of_schema(document, *schemas)


def _of_schema(document: Any, *schemas: str) -> dict[str, Any]:
    """The document, if it follows one of these schemas."""
    schema = cast(dict[str, Any], document).get("schema") if isinstance(document, dict) else None
    if schema in schemas:
        return cast(dict[str, Any], document)
    if schema == RUN:
        raise ValueError(f"this document follows {RUN}: it holds several reports, which `gradproof show` reads")
    known = " or ".join(schemas)
    if isinstance(schema, str) and schema.startswith(("gradproof.report/", "gradproof.run/", "gradproof.audit/")):
        raise ValueError(
            f"this document follows {schema}, and this version of gradproof reads {known}: "
            "run the check again, or read the document with the version of gradproof that wrote it"
        )
    raise ValueError(f"this is not a document of gradproof: its schema is {schema!r}, not {known}")


def _document(report: Report) -> dict[str, Any]:
    writer = Writer()
    body = writer.write(report)
    return {"schema": REPORT, **body, "blocks": writer.table()}


def _report(document: Mapping[str, Any]) -> Report:
    try:
        blocks = tuple(block_of(row, f"blocks[{k}]") for k, row in enumerate(document["blocks"]))
        body = {name: value for name, value in document.items() if name not in ("schema", "blocks")}
        report: Report = Reader(blocks).read(Report, body, "report")
    except (KeyError, TypeError, AttributeError) as error:
        raise refusal(error) from error
    for number, finding in enumerate(report.findings):
        require_spots_inside(finding, f"report.findings[{number}].spots")
    return report


def block_of(row: Any, where: str) -> Block:
    """A row of the table of blocks. `elements` has the numbers of the elements that the block owns, null for all."""
    given: dict[str, Any] = _checked(row, dict, where)
    block: Block = Reader(()).read(Block, {name: given[name] for name in given if name != "elements"}, where)
    numbers = Reader(()).read(tuple[int, ...] | None, given["elements"], f"{where}.elements")
    if numbers is None:
        return block
    if not all(0 <= number < math.prod(block.shape) for number in numbers):
        raise ValueError(f"{where}.elements: there are numbers beyond the shape {block.shape}")
    return dataclasses.replace(block, elements=Elements(np.array(numbers, dtype=np.intp)))


def require_spots_inside(finding: Finding, where: str) -> None:
    """Spots are of equal number in all lists, and inside the blocks of the worst entry."""
    spots = finding.spots
    if spots is None:
        return
    if len({len(part) for part in (spots.rows, spots.columns, spots.excess, spots.counts)}) > 1:
        raise ValueError(f"{where}: the lists are not of the same length")
    for worst in finding.entries[:1]:
        for block, coordinates in ((worst.output.block, spots.rows), (worst.input.block, spots.columns)):
            if any(not 0 <= coordinate < block.size for coordinate in coordinates):
                raise ValueError(f"{where}: there are coordinates outside of {block.label}")


def refusal(error: Exception) -> ValueError:
    return ValueError(f"the document does not follow its schema: {type(error).__name__}: {error}")


@functools.cache
def _fields(kind: type) -> dict[str, Any]:
    """The fields of a dataclass that a document has, and their types. What takes no part in `==` is not among them."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init and field.compare}


def _keys(kind: type) -> tuple[str, ...]:
    """The keys of a dataclass in a document."""
    return *_DERIVED.get(kind, ()), *_fields(kind)


class Writer:
    """Values to JSON; blocks go into a table."""

    def __init__(self) -> None:
        self._blocks: dict[Block, int] = {}

    def table(self) -> list[dict[str, Any]]:
        return [{**self._fields_of(block), "elements": _element_numbers(block)} for block in self._blocks]

    def write(self, value: Any) -> Any:
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else str(value)
            case enum.Enum():
                return value.name
            case Block():
                return self._blocks.setdefault(value, len(self._blocks))
            case Exception():
                return dict(zip(("kind", "text"), told_of(value), strict=True))
            case tuple():
                return [self.write(item) for item in cast(Iterable[Any], value)]
            case _:
                return self._fields_of(value)

    def _fields_of(self, value: Any) -> dict[str, Any]:
        return {name: self.write(getattr(value, name)) for name in _keys(cast(Any, type(value)))}


def _element_numbers(block: Block) -> list[int] | None:
    return None if block.elements is None else block.elements.flat.tolist()


class Reader:
    """JSON to values of the types that the dataclasses say."""

    def __init__(self, blocks: tuple[Block, ...]) -> None:
        self._blocks = blocks

    def read(self, kind: Any, value: Any, where: str) -> Any:
        """`value` as a `kind`; `where` names it in an error."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is types.UnionType or origin is typing.Union:
            kinds = [argument for argument in arguments if argument is not types.NoneType]
            if value is None or len(kinds) > 1:  # the numbers and names of inputs
                return None if value is None else _checked(value, tuple(kinds), where)
            return self.read(kinds[0], value, where)
        if origin is tuple:
            return self._tuple(arguments, value, where)
        if kind is float:
            return _SPECIAL[value] if isinstance(value, str) else float(_checked(value, (int, float), where))
        if kind in (int, str, bool):
            return _checked(value, kind, where)
        if kind is Exception:
            return RecordedError(_checked(value["kind"], str, where), _checked(value["text"], str, where))
        if issubclass(kind, enum.Enum):
            return cast(Any, kind)[_checked(value, str, where)]
        if kind is Block and not isinstance(value, dict):
            return self._block(value, where)
        return self._dataclass(kind, value, where)

    def _block(self, number: Any, where: str) -> Block:
        if not 0 <= _checked(number, int, where) < len(self._blocks):
            raise ValueError(f"{where}: there is no block number {number}")
        return self._blocks[int(number)]

    def _tuple(self, arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
        items: list[Any] = _checked(value, list, where)
        kinds = [arguments[0]] * len(items) if arguments[-1] is Ellipsis else arguments
        if len(kinds) != len(items):
            raise ValueError(f"{where}: expected {len(kinds)} items, got {len(items)}")
        return tuple(
            self.read(kind, item, f"{where}[{k}]") for k, (kind, item) in enumerate(zip(kinds, items, strict=True))
        )

    def _dataclass(self, kind: Any, value: Any, where: str) -> Any:
        given: dict[str, Any] = _checked(value, dict, where)
        row = _LATER.get(kind, {}) | {name: item for name, item in given.items() if name not in _DERIVED.get(kind, ())}
        fields = _fields(kind)
        if row.keys() != fields.keys():
            raise ValueError(f"{where}: expected the keys {sorted(fields)}, got {sorted(row)}")
        return kind(**{name: self.read(fields[name], row[name], f"{where}.{name}") for name in fields})


def _checked(value: Any, kind: Any, where: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where}: got {value!r}")
    return value
