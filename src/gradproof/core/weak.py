"""Elements whose gradient is small beside that of others, where there is one output: what is seen of them.

Along a direction that moves everything, the output moves with the strong elements, and its error bar with it. An error
of a weak element, 1e-3 beside 1e8, drowns in it, though the tolerance of its own entry is exceeded. With one output the
answer to any cotangent is the row itself, and so it tells which elements are weak: these move by themselves, which
costs evaluations and no vjp.
"""

from __future__ import annotations

import numpy as np

from gradproof.core.flags import some
from gradproof.core.ledger import Ledger
from gradproof.core.types import Flags, Vector

# What an element may be short of its own tolerance, and is still taken for seen; as for a whole input.
_SHORT = 4.0


def weak_elements(ledger: Ledger) -> Flags | None:
    """The elements that the surveys so far do not see to their own tolerance; None: there are none."""
    wanted = _wanted(ledger)
    if wanted is None or ledger.survey.hides[0] <= ledger.tolerances.least_atol * ledger.smallest_step:
        return None  # nearly always
    hidden = np.full(len(wanted), np.inf)
    for survey in ledger.surveys:
        with np.errstate(divide="ignore"):
            hidden = np.fmin(hidden, survey.hides[0] / np.abs(survey.direction))
    weak = hidden > _SHORT * wanted
    return weak if weak.any() else None


def _wanted(ledger: Ledger) -> Vector | None:
    """What must be seen of each entry; None where the tolerance or the entry is not known."""
    if ledger.problem.outputs.size != 1 or not ledger.explicit or not ledger.questions or not ledger.searches:
        return None
    cotangent, pullback = ledger.questions[0]
    if not cotangent[0]:
        return None
    entries = np.abs(pullback / cotangent[0])
    return ledger.tolerances.least_atol + ledger.tolerances.rtol * entries


def dwarfed_elements(ledger: Ledger) -> Flags | None:
    """The elements of which all that is claimed could hide in what the surveys so far see; None: there are none.

    For a certificate, where no tolerance is given: what is negligible beside the largest entry is excused, and yet all
    of such an element may be wrong.
    """
    options, survey = ledger.options, ledger.survey
    if not options.certify or ledger.explicit or not ledger.precise or ledger.problem.noise is not None:
        return None
    if ledger.problem.outputs.size != 1 or not ledger.questions or not ledger.questions[0][0][0]:
        return None
    cotangent, pullback = ledger.questions[0]
    shares = np.abs(pullback * survey.direction)
    dwarfed = (shares > 0) & (shares < survey.hides[0] * abs(cotangent[0]))
    return dwarfed if some(dwarfed) else None
