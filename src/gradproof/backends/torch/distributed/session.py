"""One check of a function that spans several processes: the leader's session, and what every rank does around it."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from gradproof.backends.calls import Call
from gradproof.backends.coverage import left_out
from gradproof.backends.torch.distributed.channel import Channel
from gradproof.backends.torch.distributed.conventions import (
    OF_INPUTS,
    OF_OUTPUTS,
    DeclarationError,
    Declared,
    Held,
    Key,
    declared_of,
    require_known,
)
from gradproof.backends.torch.distributed.dtensors import unwrap
from gradproof.backends.torch.distributed.inference import Inference, Inferred, as_conventions, keys_of, possible_inputs
from gradproof.backends.torch.distributed.joint import Joint
from gradproof.backends.torch.distributed.local import Local, Share
from gradproof.backends.torch.distributed.patience import patience
from gradproof.backends.torch.distributed.reductions import Reductions
from gradproof.backends.torch.distributed.slopes import Slopes
from gradproof.backends.torch.distributed.team import Team
from gradproof.backends.torch.state.preserve import kept
from gradproof.backends.torch.validate import differentiable
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Mode, Problem
from gradproof.core.space import Block


class Member(NamedTuple):
    """This process in a check."""

    channel: Channel
    local: Local


@contextmanager
def joined(call: Call, group: dist.ProcessGroup, timeout: float) -> Generator[Member]:
    """Meet the other ranks. Inside, this rank's state is kept safe, and no communication waits longer than that."""
    tensors = [tensor for _, tensor in differentiable(call)]
    with patience(group, timeout), kept(tensors, call) as safe:
        channel = Channel(group, timeout)
        unwrapped, holdings = unwrap(safe)
        local = Local(unwrapped, holdings)
        try:
            yield Member(channel, local)
        finally:
            local.restore()


class LeadingSession:
    """The leader's session: the whole map as one Problem, asked through the team."""

    framework = "torch"

    def __init__(self, team: Team, call: Call, inputs_are: Declared, outputs_are: Declared, seed: int) -> None:
        self._team, self._call, self._seed = team, call, seed
        self._declared = inputs_are, outputs_are
        self.notes: tuple[str, ...] = ()
        self._learnt: tuple[str, ...] = ()
        self.joint: Joint | None = None
        self._slopes: Slopes | None = None
        self._inferred: Inferred | None = None

    @property
    def not_covered(self) -> tuple[str, ...]:
        return (*left_out(self._call), *self._learnt)

    def problem(self) -> Problem:
        """The map of all ranks. Calls the function on every rank."""
        low = self._team.ask("is_low")
        shares: list[Share] = self._team.ask("begin", [(all(low),)] * self._team.size)
        self._slopes = Slopes(self._team, shares, self._seed)
        inferred = self._inferred = self._understood(shares)
        known = [share.holdings for share in shares]
        self.joint = Joint(
            self._team, shares, as_conventions(inferred.inputs, known), as_conventions(inferred.outputs, known)
        )
        self.notes += (_told(inferred),)
        if inferred.holds:
            self.notes += tuple(f"right if {way}" for way in inferred.holds)
        return self.joint.problem()

    def _understood(self, shares: Sequence[Share]) -> Inferred:
        of_inputs, of_outputs = self._declared
        inputs = _declared(of_inputs, [share.inputs for share in shares], OF_INPUTS, "inputs_are", shares)
        outputs = _declared(of_outputs, [share.outputs for share in shares], OF_OUTPUTS, "outputs_are", shares)
        _require_copies(inputs, shares)
        assert self._slopes is not None
        return Inference(self._slopes, inputs, outputs).infer()

    def second(self) -> Problem:
        raise NotImplementedError("of functions that span several processes only first derivatives are checked")

    def modes(self, investigation: Investigation) -> tuple[Mode, ...]:
        """Reverse mode, unless forward mode is asked for: collectives rarely have a forward rule."""
        self._learnt += ("forward mode (ask for it with modes=: most collectives have no forward rule)",)
        return (Mode.REVERSE,)

    def cause(self, block: Block) -> str:
        """The reduction that explains a wrong gradient of an input of all ranks."""
        assert self._slopes is not None
        assert self._inferred is not None
        reductions = Reductions(self._slopes, self._inferred.inputs, self._inferred.outputs)
        return reductions.cause(Key(block.kind, block.index, block.name))


def _declared(
    declared: Declared, blocks: Sequence[Sequence[Block]], allowed: Sequence[Held], what: str, shares: Sequence[Share]
) -> dict[Key, Held]:
    """What was declared, and of distributed tensors what they say themselves."""
    found: dict[Key, Held] = {}
    require_known(declared, keys_of(blocks), what)
    for key in keys_of(blocks):
        said = declared_of(declared, key, allowed, what)
        known = next((share.holdings[key].held for share in shares if key in share.holdings), None)
        held = said or known
        if held is not None:
            found[key] = held
    return found


def _require_copies(inputs: Mapping[Key, Held], shares: Sequence[Share]) -> None:
    """Copies must be copies: where a declaration says so and values differ, the call is wrong, not its derivative."""
    for key, held in inputs.items():
        known = any(key in share.holdings for share in shares)
        if held is not Held.VARYING and not known and held not in possible_inputs(shares, key):
            raise DeclarationError(
                f"{key.kind} {key.name or key.index} was declared {held.value!r}, but the ranks hold different values "
                "of it: give every rank the same, or declare it 'varying'"
            )


def _told(inferred: Inferred) -> str:
    sides = (inferred.inputs, inferred.outputs)
    told = [f"{key.kind} {key.name or key.index} {held.value}" for side in sides for key, held in side.items()]
    return f"checked as: {', '.join(told)}"


def group_of(group: Any) -> dist.ProcessGroup:
    """The process group of a check; the default one unless another is given."""
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(
            "gradproof.distributed.check is called by every rank of a process group, and there is none: "
            "call torch.distributed.init_process_group first, or start the ranks with gradproof.distributed.launch"
        )
    found = dist.group.WORLD if group is None else group
    if found is None or dist.get_rank(found) < 0:
        raise ValueError("this process is no member of the group: only members call gradproof.distributed.check")
    if torch.is_inference_mode_enabled():
        raise RuntimeError(
            "gradproof.distributed.check was called inside torch.inference_mode(), where nothing has a graph"
        )
    return found
