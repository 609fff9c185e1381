"""How large the figures' experiments are: quick (minutes), paper (hours), tiny (tests)."""

from __future__ import annotations

from dataclasses import dataclass

from polyceptron.errors import InvalidInput


@dataclass(frozen=True)
class Profile:
    """Sizes of the simulations, and how many points lines and series of symbols have."""

    name: str
    amp_dimension: int
    amp_runs: int
    trace_dimension: int  # of the runs that are followed step by step
    erm_dimension: int
    erm_instances: int
    further_instances: int  # the same for the figures that the paper does not have
    line_points: int
    symbols: int
    classes: tuple[int, ...]
    amp_classes: tuple[int, ...]  # those of `classes` that message passing runs for
    amp_classes_dimension: int
    amp_classes_runs: int
    error_tolerance: float  # of the Bayes-optimal error for k ≥ 4
    transition_classes: tuple[int, ...]
    transition_tolerance: float  # for k ≥ 4

    def spread(self, low: float, high: float, count: int, *, log: bool = False) -> list[float]:
        """`count` values from low to high, rounded so that tables and seeds read well."""
        steps = [i / max(count - 1, 1) for i in range(count)]
        if log:
            return [float(f"{low * (high / low) ** s:.4g}") for s in steps]
        return [float(f"{low + (high - low) * s:.4g}") for s in steps]

    def line(self, low: float, high: float, marks: list[float]) -> list[float]:
        """α of a line of theory, which has a value at every symbol too."""
        return sorted({*self.spread(low, high, self.line_points), *marks})

    def thin(self, values: list[float]) -> list[float]:
        """At most `symbols` of the values, ends included."""
        if len(values) <= self.symbols:
            return values
        last = len(values) - 1
        chosen = {round(i * last / (self.symbols - 1)) for i in range(self.symbols)}
        return [values[i] for i in sorted(chosen)]


QUICK = Profile(
    name="quick",
    amp_dimension=500,
    trace_dimension=1000,
    amp_runs=10,
    erm_dimension=300,
    erm_instances=20,
    further_instances=20,
    line_points=60,
    symbols=16,
    classes=(2, 3, 5, 10, 20, 50),
    amp_classes=(2, 5, 10),
    amp_classes_dimension=200,
    amp_classes_runs=5,
    error_tolerance=1e-3,
    transition_classes=(2, 3, 4, 5, 7, 10, 14, 20, 30, 50),
    transition_tolerance=0.02,
)

PAPER = Profile(
    name="paper",
    amp_dimension=1000,
    trace_dimension=1000,
    amp_runs=20,
    erm_dimension=1000,
    erm_instances=250,
    further_instances=50,
    line_points=120,
    symbols=24,
    classes=(2, 3, 5, 10, 20, 50),
    amp_classes=(2, 3, 5, 10),
    amp_classes_dimension=1000,
    amp_classes_runs=20,
    error_tolerance=2e-4,
    transition_classes=(2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 25, 30, 40, 50),
    transition_tolerance=0.005,
)

TINY = Profile(
    name="tiny",
    amp_dimension=100,
    trace_dimension=100,
    amp_runs=2,
    erm_dimension=60,
    erm_instances=2,
    further_instances=2,
    line_points=12,
    symbols=4,
    classes=(2, 3, 5),
    amp_classes=(2,),
    amp_classes_dimension=60,
    amp_classes_runs=2,
    error_tolerance=0.01,
    transition_classes=(2, 3, 4),
    transition_tolerance=0.1,
)

PROFILES = {profile.name: profile for profile in (QUICK, PAPER)}


def as_profile(profile: str | Profile) -> Profile:
    """A profile by its name, or a sentence."""
    if isinstance(profile, Profile):
        return profile
    if profile not in PROFILES:
        raise InvalidInput(f"unknown profile {profile!r}: allowed are {', '.join(PROFILES)}")
    return PROFILES[profile]
