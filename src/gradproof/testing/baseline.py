"""A run next to an earlier one: what is newly wrong, what is fixed, and what has become slower."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gradproof.render.line import one_line
from gradproof.results.run import Checked, Run

# A check is slower from this much more evaluations on, which are the same on every machine, or from this much more
# time on, where that is not too little to tell.
_MORE_EVALUATIONS, _MORE_SECONDS, _LEAST_SECONDS = 1.2, 2.0, 1.0

Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed between two runs: each with its check before, where there is one, and after."""

    newly_wrong: tuple[Checked, ...]
    fixed: tuple[Checked, ...]
    slower: tuple[tuple[Checked, Checked], ...]
    both: int
    new: int
    gone: int

    def lines(self) -> Iterator[str]:
        """What a terminal shows."""
        yield f"baseline: {self.both} checks in both runs, {self.new} new, {self.gone} no longer there"
        yield from (f"  newly wrong: {each.name}: {one_line(each.report)}" for each in self.newly_wrong)
        yield from (f"  fixed: {each.name}: {each.report.subject}" for each in self.fixed)
        yield from (f"  slower: {_slower(before, after)}" for before, after in self.slower)
        if not (self.newly_wrong or self.fixed or self.slower):
            yield "  nothing is newly wrong, fixed or slower"


def compared(before: Run, after: Run) -> Comparison:
    """The checks of two runs, matched by test, function and their order within the test."""
    old, new = _keyed(before.checks), _keyed(after.checks)
    both = [(old[key], new[key]) for key in new if key in old]
    added = [new[key] for key in new if key not in old]
    return Comparison(
        newly_wrong=tuple(
            each for each in [*(late for early, late in both if early.word != "FAIL"), *added] if each.word == "FAIL"
        ),
        fixed=tuple(late for early, late in both if early.word == "FAIL" and late.report.ok),
        slower=tuple((early, late) for early, late in both if _is_slower(early, late)),
        both=len(both),
        new=len(added),
        gone=len(old.keys() - new.keys()),
    )


def _keyed(checks: Iterable[Checked]) -> dict[Key, Checked]:
    seen: Counter[tuple[str, str]] = Counter()
    keyed: dict[Key, Checked] = {}
    for each in checks:
        name = each.name, each.report.subject
        keyed[(*name, seen[name])] = each
        seen[name] += 1
    return keyed


def _is_slower(before: Checked, after: Checked) -> bool:
    """Of two checks that came to the same verdict: a failure costs more than a pass, which is no news."""
    if before.report.verdict is not after.report.verdict:
        return False
    old, new = before.report.cost, after.report.cost
    calls = new.evaluations + new.vjps + new.jvps > _MORE_EVALUATIONS * (old.evaluations + old.vjps + old.jvps)
    return calls or (new.seconds > _MORE_SECONDS * old.seconds and new.seconds - old.seconds > _LEAST_SECONDS)


def _slower(before: Checked, after: Checked) -> str:
    old, new = before.report.cost, after.report.cost
    return (
        f"{after.name}: {after.report.subject}, {old.evaluations} to {new.evaluations} evaluations, "
        f"{old.seconds:.3f} to {new.seconds:.3f} s"
    )
