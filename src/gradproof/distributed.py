"""Functions that span several processes: `check`, called by every rank with its own part.

One rank leads: it runs the same check as `gradproof.check`, on the map from all ranks' inputs to all ranks' outputs.
The others answer its requests. Every rank returns the same report.

    torchrun --nproc-per-node 4 check_my_layer.py        # each rank calls gradproof.distributed.check(layer, (x, w))
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from gradproof.api import limits_of
from gradproof.backends import as_arguments
from gradproof.backends.coverage import select
from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.distributed.channel import LeaderLostError
from gradproof.backends.torch.distributed.conventions import Declared
from gradproof.backends.torch.distributed.launch import launch as launch
from gradproof.backends.torch.distributed.session import LeadingSession, group_of, joined
from gradproof.backends.torch.distributed.team import RankError, RanksLost, Team, serve
from gradproof.backends.torch.modules import ModuleCall
from gradproof.core.options import Options, Strategy
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.engine import Request, Round, conclude, examine
from gradproof.properties import DEFAULT, known_properties
from gradproof.results.called import name_of
from gradproof.results.finding import Finding
from gradproof.results.repeat import call_line
from gradproof.results.report import Report

__all__ = ["check", "launch"]


def check(
    func: Callable[..., Any],
    inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    group: Any = None,
    inputs_are: Declared = None,
    outputs_are: Declared = None,
    timeout: float = 60.0,
    strategy: str = "auto",
    modes: str | Iterable[str] | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    nondet_tol: float = 0.0,
    seed: int = 0,
    budget: float | None = None,
    evaluations: int | None = None,
    seconds: float | None = None,
    wrt: Sequence[str | int] | None = None,
    properties: Iterable[str] | None = None,
    allow: str | Iterable[str] = (),
) -> Report:
    """Check the derivative of `func` over all ranks of a group; every rank calls this, with its own inputs.

    The map under test goes from the inputs of all ranks to the outputs of all ranks. What a rank's tensor is to those
    of the others can be declared: `inputs_are` and `outputs_are` take one word for all, a sequence of words, or words
    by name, pattern or number. Inputs are "varying" (each rank has its own part), "replicated" (a copy, of which every
    rank's backward gives the whole gradient) or "shares" (a copy, of whose gradient each rank's backward gives a
    share). Outputs are "varying", "replicated" (copies, all of which get the same cotangent) or "partial" (terms
    of a sum). DTensors say it themselves. What is not declared is inferred, and the notes of the report say under which
    conventions the derivative is right.

    No call of the function may take longer than `timeout` seconds. A rank that raises, dies or waits for ever ends the
    check on all ranks, with a report that names it. After that the process group is of no more use.

    The other arguments are those of `gradproof.check`.
    """
    members, limits = group_of(group), limits_of(budget, evaluations, seconds)
    options = Options(
        strategy=Strategy.PROBES if strategy == "auto" else Strategy(strategy),
        properties=DEFAULT if properties is None else known_properties(properties, "properties"),
        allow=known_properties(allow, "allow"),
        atol=atol,
        rtol=rtol,
        nondet_tol=nondet_tol,
        seed=seed,
    )
    arguments, keywords = as_arguments(inputs), dict(kwargs or {})
    is_module = isinstance(func, torch.nn.Module)
    call = ModuleCall(func, arguments, keywords) if is_module else call_of(func, arguments, keywords)
    if wrt is not None:
        call = select(call, (wrt,) if isinstance(wrt, str | int) else wrt)
    wanted = _modes(modes)
    said: dict[str, Any] = {
        "seed": seed,
        "inputs_are": inputs_are,
        "outputs_are": outputs_are,
        "strategy": None if strategy == "auto" else strategy,
        "modes": [mode.value for mode in wanted] or None,
        "atol": atol,
        "rtol": rtol,
        "nondet_tol": nondet_tol or None,
        "budget": budget,
        "wrt": wrt,
        "properties": None if properties is None else sorted(options.properties),
        "allow": sorted(options.allow) or None,
    }
    request = functools.partial(
        Request,
        subject=name_of(func),
        options=options,
        modes=wanted,
        progress=True,
        repeat=functools.partial(call_line, "gradproof.distributed.check", name_of(func), keywords, said),
        **limits,
    )
    with joined(call, members, timeout) as (channel, local):
        if channel.is_leader:
            team = Team(channel, local, timeout)
            session = LeadingSession(team, call, inputs_are, outputs_are, seed)
            return _lead(team, session, request())
        try:
            report = serve(channel, local)
        except LeaderLostError:
            lost = RanksLost("rank 0, which led the check, is gone", (0,))
            return _ended(LeadingSession(Team(channel, local, timeout), call, None, None, seed), request(), lost)
    if isinstance(report, Report):
        return report
    raise RankError(f"the check was stopped on rank 0: {report}")


def _modes(modes: str | Iterable[str] | None) -> tuple[Mode, ...]:
    return tuple(map(Mode, [modes] if isinstance(modes, str) else modes or ()))


def _lead(team: Team, session: LeadingSession, request: Request) -> Report:
    """Check, and tell everybody; where this raises, the others are told that too."""
    told: Any = "an exception there"
    try:
        try:
            rounds = examine(session, request)
            rounds[0] = _explained(session, rounds[0])
            _count(team, rounds[0])
            told = conclude(session, request, rounds)
        except RanksLost as lost:
            told = _ended(session, request, lost)
        return told
    except BaseException as error:
        told = f"{type(error).__name__}: {error}"
        raise
    finally:
        team.end(told)


def _count(team: Team, first: Round) -> None:
    """What the conventions and the reductions took is counted too."""
    if first.investigation is not None:
        cost = first.investigation.cost
        cost.evaluations = max(
            cost.evaluations, team.asked.get("evaluate", 0) + first.investigation.problem.evaluations
        )
        cost.vjps = max(cost.vjps, team.asked.get("vjp", 0))


def _ended(session: LeadingSession, request: Request, lost: RanksLost) -> Report:
    """The report of a check that could not go on."""
    finding = Finding(
        property="evaluate",
        status=Status.RAISED,
        kind="ranks lost",
        headline=f"The check could not go on: {lost.sentence}.",
        hint="the process group is of no more use: end these processes, and start again without that fault",
        cause=RankError(lost.sentence),
    )
    return conclude(session, request, [Round(1, request.options, None, (finding,))])


def _explained(session: LeadingSession, first: Round) -> Round:
    """With the reduction named that explains a wrong gradient, and copies whose gradients differ between ranks."""
    if first.investigation is None or session.joint is None or not first.can_be_differentiated:
        return first
    causes = functools.cache(session.cause)
    findings = [
        dataclasses.replace(finding, hint=causes(finding.entries[0].input.block) or finding.hint)
        if finding.entries and finding.status is Status.WRONG
        else finding
        for finding in first.findings
    ]
    joint = session.joint
    differing = joint.copies_that_differ(first.investigation.cotangent)
    for number, coordinate, rank, one, other in differing:
        block = joint.inputs.joined[number].block
        place = joint.inputs.space.place(block.start + coordinate)
        findings.append(
            Finding(
                property="jacobian",
                kind="copies differ",
                status=Status.WRONG,
                mode=Mode.REVERSE,
                input=block.key,
                input_element=place.element,
                headline=(
                    f"The ranks hold copies of {block.label}, but their gradients differ: at {place.within or 'it'}, "
                    f"rank {joint.inputs.joined[number].members[0].rank} has {one:.9g}, rank {rank} has {other:.9g}."
                ),
                hint=causes(block),
            )
        )
    return dataclasses.replace(first, findings=tuple(findings))
