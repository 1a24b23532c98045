"""All ranks answer one question: the leader asks, everybody runs their part; there are all answers, or a reason.

Ranks cannot diverge: nobody but the leader decides what is asked next. An exception that every rank raises alike
refuses a point, as it does in one process. Any other one leaves some ranks in a communication that the raising rank
never joined. There is no way back from that: the check ends, and the report names the rank.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch.distributed as dist

from gradproof.backends.torch.distributed.channel import Channel, Reply
from gradproof.backends.torch.distributed.local import Local

_GRACE = 5.0
"""Seconds that a reply may take longer than the communication inside the function."""
_CONTACT = ("timed out", "connection closed", "connection reset", "connection refused", "broken pipe", "gloo")


class RankError(RuntimeError):
    """An exception of the function, on a rank."""


class RanksLost(BaseException):
    """Ranks raised, died or wait for ever, and the others cannot go on. Like Ctrl-C, user code does not catch it."""

    def __init__(self, sentence: str, ranks: tuple[int, ...]) -> None:
        super().__init__(sentence)
        self.sentence, self.ranks = sentence, ranks


class Raised(NamedTuple):
    """An exception, as text: not every exception can be sent."""

    kind: str
    text: str
    of_contact: bool
    """Whether it says no more than that another rank could not be reached."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def as_raised(error: BaseException) -> Raised:
    text = str(error)
    of_contact = isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and any(word in text.lower() for word in _CONTACT)
    )
    return Raised(type(error).__name__, text.splitlines()[0][:300] if text else "", of_contact)


class Team:
    """The leader's view of all ranks. Answers come as one list, by rank."""

    def __init__(self, channel: Channel, local: Local, timeout: float) -> None:
        self._channel, self._local, self._timeout = channel, local, timeout
        self.size = channel.size
        self._lost = False
        self.asked: dict[str, int] = {}
        """How often each kind of question was asked."""

    def ask(self, kind: str, parts: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """What each rank answers to its part of the question."""
        arguments = parts or [()] * self.size
        self.asked[kind] = self.asked.get(kind, 0) + 1
        started = time.monotonic()
        self._channel.ask([(kind, *part) for part in arguments])
        replies = {self._channel.rank: _reply(lambda: self._local.answer(kind, *arguments[self._channel.rank]))}
        replies |= self._channel.replies(max(started + self._timeout, time.monotonic()) + _GRACE)
        try:
            _require_all(replies, self.size, self._timeout)
        except RanksLost:
            self._lost = True
            raise
        return [replies[rank].value for rank in range(self.size)]

    def end(self, report: Any) -> None:
        """Tell everybody that this was all, and what came of it; wait until they know, because the store goes then."""
        self._channel.ask([("end", report)] * self.size)
        self._channel.replies(time.monotonic() + (self._timeout if self._lost else 0) + _GRACE)


def serve(channel: Channel, local: Local) -> Any:
    """Answer the leader's requests until the end; the report. None: the leader was stopped."""
    while True:
        kind, *arguments = channel.request()
        if kind == "end":
            channel.reply(Reply())
            return arguments[0]
        channel.reply(_reply(lambda: local.answer(kind, *arguments)))  # noqa: B023 (called at once)


def _reply(work: Callable[[], Any]) -> Reply:
    try:
        return Reply(value=work())
    except Exception as error:
        return Reply(error=as_raised(error))


def _require_all(replies: Mapping[int, Reply], size: int, timeout: float) -> None:
    """Raise `RankError` where all ranks refuse alike, `RanksLost` where they part."""
    raised = {rank: reply.error for rank, reply in sorted(replies.items()) if reply.error is not None}
    silent = tuple(rank for rank in range(size) if rank not in replies)
    if not raised and not silent:
        return
    own = {rank: error for rank, error in raised.items() if not error.of_contact}
    if len(own) == size and len({error.kind for error in own.values()}) == 1:
        raise RankError(f"on every rank: {own[0]}")
    if own:
        ranks = tuple(own)
        told = "; ".join(f"rank {rank} raised {error}" for rank, error in own.items())
        raise RanksLost(f"{told}, and the other ranks were left waiting for it", ranks)
    if silent:
        told = _ranks(silent)
        raise RanksLost(f"{told} gave no answer within {timeout:g} s: gone, or waiting for ever", silent)
    told = "; ".join(f"rank {rank}: {error}" for rank, error in raised.items())
    raise RanksLost(f"the ranks wait for each other in different communications ({told})", tuple(raised))


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
