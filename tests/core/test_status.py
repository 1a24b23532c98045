"""The outcomes of a comparison, from good to bad."""

from __future__ import annotations

from gradproof.core.status import Status


def test_statuses_rank_from_right_to_raised() -> None:
    ranks = [s.rank for s in (Status.RIGHT, Status.KINK, Status.INCONCLUSIVE, Status.WRONG, Status.RAISED)]
    assert ranks == sorted(set(ranks))
