"""For authors of backends: scenarios, the contract of a Problem, and a conformance suite made of both.

A backend that runs `conformance(adapter)` without a failure gives what the core relies on, and is told of planted
mistakes what it should be told. `docs/backends.md` has an example.
"""

from gradproof.testing.conformance import Adapter, Case, conformance
from gradproof.testing.contract import violations
from gradproof.testing.scenarios import SCENARIOS, Expected, Scenario

__all__ = ["SCENARIOS", "Adapter", "Case", "Expected", "Scenario", "conformance", "violations"]
