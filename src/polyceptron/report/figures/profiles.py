"""Profiles of figures: sizes of the simulations, and how many points are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

from polyceptron.errors import InvalidInput


@dataclass(frozen=True)
class Profile:
    """Sizes of the simulations, and how many points lines and series of symbols have.

    Attributes
    ----------
    name : str
    amp_dimension, amp_runs : int
        Message passing at k = 3.
    trace_dimension : int
        Runs of message passing that are followed step by step.
    erm_dimension, erm_instances : int
        Fits in the figures of the paper.
    further_instances, noisy_instances : int
        Fits in further figures, and in those with noisy labels or unequal classes.
    line_points : int
        Points of a line at most, beside those under symbols.
    symbols : int
        Symbols of a series at most.
    classes, amp_classes : tuple of int
        Numbers of classes of the figure *classes*, and those of them with message passing.
    error_tolerance : float
        Of the Bayes-optimal error for four classes and more.
    transition_classes, transition_tolerance
        Numbers of classes of the figure *transitions*, and the tolerance for four and more.
    rival_points : int
        Points of a line whose best ridges take seconds each, at most.
    separable_dimension, separable_instances : int
        Tests of separability.
    twin_draws : int
        Training sets of each size in the figure *twins*.
    """

    name: str
    amp_dimension: int = 500
    amp_runs: int = 10
    trace_dimension: int = 1000
    erm_dimension: int = 300
    erm_instances: int = 20
    further_instances: int = 20
    noisy_instances: int = 5
    line_points: int = 80
    symbols: int = 16
    classes: tuple[int, ...] = (2, 3, 5, 10, 20, 50)
    amp_classes: tuple[int, ...] = (2, 5, 10)
    amp_classes_dimension: int = 200
    amp_classes_runs: int = 5
    error_tolerance: float = 1e-3
    transition_classes: tuple[int, ...] = (2, 3, 4, 5, 7, 10, 14, 20, 30, 50)
    transition_tolerance: float = 0.02
    rival_points: int = 16
    rival_ridge: float | str = "optimal"
    separable_dimension: int = 40
    separable_instances: int = 5
    twin_draws: int = 8

    def thin(self, values: Sequence[float]) -> list[float]:
        """Return at most `symbols` of the values at even distances, ends included."""
        count = min(len(values), self.symbols)
        last = len(values) - 1
        return [values[round(i * last / max(count - 1, 1))] for i in range(count)]


QUICK = Profile("quick")
PAPER = Profile(
    "paper",
    amp_dimension=1000,
    amp_runs=20,
    erm_dimension=1000,
    erm_instances=250,
    further_instances=50,
    noisy_instances=50,
    line_points=160,
    symbols=24,
    amp_classes=(2, 3, 5, 10),
    amp_classes_dimension=1000,
    amp_classes_runs=20,
    error_tolerance=2e-4,
    transition_tolerance=0.005,
    separable_dimension=300,
    transition_classes=(2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 25, 30, 40, 50),
    twin_draws=10,
)
PROFILES = {profile.name: profile for profile in (QUICK, PAPER)}


def as_profile(profile: str | Profile) -> Profile:
    """Return a profile by its name."""
    if isinstance(profile, Profile):
        return profile
    if profile not in PROFILES:
        raise InvalidInput(f"unknown profile {profile!r}: allowed are {', '.join(PROFILES)}")
    return PROFILES[profile]
