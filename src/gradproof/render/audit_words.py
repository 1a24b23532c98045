"""The sentences of an audit: what an operation did, why a value is no number, and the known remedy."""

from __future__ import annotations

from collections.abc import Callable

from gradproof.render.text import number_or_nan
from gradproof.results.audit import AuditedOperation, AuditReport, Notice, NoticeKind, Origin, Phase

# Shares below this are round-off.
_ROUND_OFF = 5e-5

REASONS: dict[str, tuple[str, str]] = {
    "division by zero": (
        "a division by zero",
        "add a small number to the denominator, or replace zeros in it by 1 with torch.where before dividing",
    ),
    "logarithm of zero": (
        "the logarithm of zero",
        "clamp the argument from below (x.clamp_min(tiny)), or compute in logarithms (log_softmax, logsigmoid, log1p)",
    ),
    "logarithm of a negative number": (
        "the logarithm of a negative number",
        "clamp the argument from below, or make it positive by construction (softplus, exp)",
    ),
    "root of a negative number": (
        "the square root of a negative number, often round-off below zero",
        "clamp the argument at a small positive number before the root",
    ),
    "power of zero": (
        "a negative power of zero",
        "add a small number to the base, or leave zeros out with torch.where",
    ),
    "power of a negative number": (
        "a fractional power of a negative number",
        "take the power of the absolute value and put the sign back, or clamp the base",
    ),
    "outside of the domain": (
        "an argument outside of the function's domain, often round-off beyond its end",
        "clamp the argument to slightly inside of the domain",
    ),
    "spread of one": (
        "the standard deviation or variance of a single number",
        "use correction=0, or leave out groups of one",
    ),
    "mean of nothing": ("the mean of no elements", "leave empty groups out, or divide by a count that is at least 1"),
    "masked row": (
        "a softmax over a row that is masked throughout",
        "leave one position of each row unmasked, or mask with torch.finfo(dtype).min and set the row to zero after",
    ),
    "zero times infinity": ("zero times infinity", "keep the infinity from arising: replace it before the product"),
    "infinity minus infinity": (
        "a difference or quotient of infinities",
        "keep the infinities from arising: subtract the maximum, or replace them before",
    ),
    "overflow of an exponential": (
        "an exponential that overflows",
        "subtract the maximum before (softmax, logsumexp do), or clamp the argument",
    ),
    "overflow in half": (
        "an overflow of the low precision",
        "scale the numbers down before, keep this operation in float32, or use bfloat16, whose range is wider",
    ),
    "overflow": ("an overflow", "scale the numbers down before, or compute in logarithms"),
    "branch not taken": (
        "zero times an infinite derivative: what hides the value here (torch.where, a mask, a factor of zero) does not "
        "hide the derivative",
        "make the argument harmless before the operation: f(torch.where(mask, x, 1.0)), then torch.where around it too",
    ),
    "infinite derivative of a root": (
        "a root or power whose derivative is infinite at zero",
        "add a small number under the root, or clamp the argument from below",
    ),
    "infinite derivative at zero": (
        "a derivative that is infinite at zero",
        "clamp the argument from below before the operation",
    ),
    "infinite derivative at the end of the domain": (
        "a derivative that is infinite at the end of the domain",
        "clamp the argument to slightly inside of the domain",
    ),
    "no direction at zero": (
        "a norm, spread or angle of nothing but zeros, which has no direction",
        "add a small number under the root, or leave rows of zeros out before",
    ),
}
"""By reason: what happened, and the known remedy."""


def context_headline(
    path: str,
    target: str,
    element: tuple[int, ...],
    values: tuple[float, float],
    writer: tuple[str, str] | None,
) -> str:
    """An operation hands on something else in the model than alone."""
    in_model, alone = values
    told = (
        f"in the model, {path} hands on {in_model:.9g} for {target}, element {list(element)}; called again alone with "
        f"the same values and the same gradients, {alone:.9g}."
    )
    if writer is not None:
        return f"{told} What it saved was overwritten before its backward ran, by {writer[0]} at {writer[1]}."
    return f"{told} It keeps state that changed before its backward ran, or what it saved was overwritten."


def told_origin(report: AuditReport, origin: Origin) -> list[str]:
    """Where a value stops being a number, in lines."""
    what = number_or_nan(origin.value)
    place = f"element {list(origin.element)}" if origin.element else "the number"
    if origin.operation is None:
        return [f"{origin.target} is {what} at {place} from the start ({origin.count} such elements)"]
    operation = report.operations[origin.operation]
    of = f"{origin.target}" if origin.phase is Phase.FORWARD else f"the gradient of {origin.target}"
    values = ", ".join(f"{name} = {number_or_nan(value)}" for name, value in origin.values)
    reason, remedy = REASONS.get(origin.reason, ("", ""))
    return [
        f"{operation.path} at {operation.line or 'an unknown line'} makes {of} {what} at {place}"
        + (f" ({origin.count} such elements)" if origin.count > 1 else ""),
        *([f"went in: {values}"] if values else []),
        *([f"reason: {reason}"] if reason else []),
        *([f"remedy: {remedy}"] if remedy else []),
    ]


def told_notice(report: AuditReport, notice: Notice) -> str:
    """One thing that is named without being wrong."""

    def at(number: int | None) -> str:
        if number is None:
            return "something outside of the recorded operations"
        operation = report.operations[number]
        return f"{operation.path} ({operation.line})" if operation.line else operation.path

    tell: dict[NoticeKind, Callable[[], str]] = {
        NoticeKind.CUT: lambda: (
            f"{at(notice.operation)} cuts the graph: its result changes with what is differentiated, and no gradient "
            "goes back through it"
        ),
        NoticeKind.OVERWRITTEN: lambda: (
            f"{at(notice.by)} writes in place to what {at(notice.operation)} saved for its backward"
        ),
        NoticeKind.DECLARED: lambda: (
            f"{at(notice.operation)} declares a gradient that is not its derivative ({notice.options}): it was judged, "
            "here and in the whole, by what it declares"
        ),
        NoticeKind.NO_GRADIENT: lambda: f"parameter `{notice.parameter}` receives no gradient",
        NoticeKind.ALONE: lambda: (
            f"{at(notice.operation)} is wrong by itself, but explains nothing of what this model does: it takes for "
            "granted what holds here, or what is wrong cancels"
        ),
        NoticeKind.KINK: lambda: f"{at(notice.operation)} is evaluated at a kink: its gradient there is a choice",
        NoticeKind.SATURATED: lambda: (
            f"{at(notice.operation)} is saturated: {notice.count} of {notice.total} elements hand on a gradient of "
            "exactly zero"
        ),
    }
    return tell[notice.kind]()


def told_share(operation: AuditedOperation) -> str:
    """The part of the deviation that an operation explains."""
    if operation.share is None:
        return ""
    return f"{100 * operation.share:.3g} %" if abs(operation.share) >= _ROUND_OFF else "0 %"


def told_shares(report: AuditReport, operation: AuditedOperation) -> str:
    """The same in a sentence, with its other calls where there are some."""
    share, together = told_share(operation), report.share_of_calls(operation)
    calls = sum(each.first == operation.first for each in report.operations)
    if not share or together is None:
        return share
    others = f"; its {calls} calls together {100 * together:.3g} %" if calls > 1 else ""
    return f"{share} of the deviation of the whole model{others}"
