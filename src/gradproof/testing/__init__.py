"""For tests: the type of the fixtures, and for authors of backends scenarios, a contract and a conformance suite.

A backend that runs `conformance(adapter)` without a failure gives what the core relies on, and is told of planted
mistakes what it should be told. `docs/backends.md` has an example. The modules that are not named here are what the
pytest plugin does once a test or an option asks for it.
"""

from gradproof.testing.conformance import Adapter, Case, conformance
from gradproof.testing.contract import violations
from gradproof.testing.fixtures import GradproofCheck
from gradproof.testing.scenarios import SCENARIOS, Expected, Scenario

__all__ = ["SCENARIOS", "Adapter", "Case", "Expected", "GradproofCheck", "Scenario", "conformance", "violations"]
