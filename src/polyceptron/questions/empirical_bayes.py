"""Does empirical Bayes choose well? The noise of largest evidence against that of least error.

A student who does not know the noise of the labels assumes one of a family, such as Gaussian noise
of any variance Δ, and takes the one under which the labels are most probable: the maximum of the
evidence (`theory/mismatched.py`). It needs no held-out samples. Beside it stand the member of the
family of least generalisation error, which nobody knows without the teacher, and that of least test
loss, which held-out samples would choose.

The variance s² of the weights is 1 throughout: it adds nothing. Gaussian noise Δ with weights of
variance s² is Gaussian noise Δ/s² with weights of variance 1, a softmax slope β is βs, and flips do
not see the scale of the fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from polyceptron.checks import check_alpha
from polyceptron.display import ShortDisplay
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.problem import CHANNELS, AnyTeacher, MismatchedBayes, as_channel
from polyceptron.problem.populations import check_teacher
from polyceptron.progress import steps
from polyceptron.rows import Status
from polyceptron.solve.minimise import Minimum, Place, Trial, minimise
from polyceptron.theory.mismatched import MismatchedPoint, mismatched_point

# Tolerances on the evidence, the error and the test loss at which a search ends: the levels of the
# fields side are this smooth in the assumed noise.
TOLERANCE_UP_TO_THREE_CLASSES = 1e-7
TOLERANCE_ABOVE_THREE_CLASSES = 1e-4
AS_GOOD = 1e-3  # of that tolerance: a difference that is rounding
SMALLEST_NUMBER = 1e-6  # of a noise: variance, slope or rate
LARGEST_NUMBER = 1e6


@dataclass(frozen=True, repr=False)
class NoiseChoice(ShortDisplay):
    """One member of the family, and how its student does.

    Attributes
    ----------
    noise : str
        As it is written: 'gaussian:0.25', or 'none' for the limit without noise.
    inside : bool
        Whether the best number lies inside the range: False for a limit or an edge.
    generalisation_error, uncertainty, test_loss, evidence : float
        Those of `mismatched_point`.
    status : Status
    """

    noise: str
    inside: bool
    generalisation_error: float
    uncertainty: float
    test_loss: float
    evidence: float
    status: Status


@dataclass(frozen=True, repr=False)
class EmpiricalBayes(ShortDisplay):
    """What the evidence, the error and the test loss choose, and what the evidence loses.

    Attributes
    ----------
    family : str
    alpha : float
        n/d.
    by_evidence, by_error, by_test_loss : NoiseChoice
    lost_error : float
        The error of the evidence's choice less the least error of the family.
    lost_error_uncertainty : float
    lost_test_loss : float
        The same of the test loss.
    """

    family: str
    alpha: float
    by_evidence: NoiseChoice
    by_error: NoiseChoice
    by_test_loss: NoiseChoice

    @property
    def lost_error(self) -> float:
        """The error of the choice by evidence, less the least error."""
        return max(self.by_evidence.generalisation_error - self.by_error.generalisation_error, 0.0)

    @property
    def lost_error_uncertainty(self) -> float:
        """The uncertainty of `lost_error`."""
        return self.by_evidence.uncertainty + self.by_error.uncertainty

    @property
    def lost_test_loss(self) -> float:
        """The test loss of the choice by evidence, less the least test loss."""
        return max(self.by_evidence.test_loss - self.by_test_loss.test_loss, 0.0)


def empirical_bayes(
    teacher: AnyTeacher, alpha: float, family: str = "gaussian", tol: float | None = None
) -> EmpiricalBayes:
    """Choose the assumed noise by the evidence, and compare with the least error and test loss.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    alpha : float
        n/d, above 0.
    family : str
        The noises among which the student chooses: the name of any registered noise that has one
        number.
    tol : float, optional
        Of each generalisation error, as in `mismatched_point`.

    Returns
    -------
    EmpiricalBayes

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> found = empirical_bayes(Teacher(2, noise="gaussian:0.5"), 3.0)
    >>> found.by_evidence.noise[:12], found.lost_error < 1e-6
    ('gaussian:0.5', True)
    """
    check_teacher(teacher)
    alpha = check_alpha(alpha)
    if alpha == 0:
        raise InvalidInput("empirical Bayes needs samples: alpha must be above 0, got 0")
    entries = {entry.name: entry for entry in CHANNELS.entries if len(entry.parameters) == 1}
    if family not in entries:
        raise InvalidInput(f"unknown family {family!r}: allowed are {', '.join(entries)}")
    search = _Search(teacher, alpha, family, entries[family].example[0], tol)
    parts = steps([_minus_evidence, _error, _test_loss])
    by_evidence, by_error, by_test_loss = (search.choice(quantity) for quantity in parts)
    return EmpiricalBayes(family, alpha, by_evidence, by_error, by_test_loss)


def _minus_evidence(point: MismatchedPoint) -> float:
    return -point.evidence


def _error(point: MismatchedPoint) -> float:
    return point.generalisation_error


def _test_loss(point: MismatchedPoint) -> float:
    return point.test_loss


@dataclass
class _Search:
    """The points of one family so far, by the number of the noise."""

    teacher: AnyTeacher
    alpha: float
    family: str
    start: float  # the number with which a search begins
    tol: float | None
    points: dict[float, MismatchedPoint] = field(default_factory=dict)

    def choice(self, quantity: Callable[[MismatchedPoint], float]) -> NoiseChoice:
        """Return the member of the family at which a quantity is least."""
        found = self._least(quantity)
        number = found.parameter
        inside = found.place is Place.INSIDE
        if self._is_as_good_without_noise(quantity, number):
            number = 0.0
            inside = False
        point = self.at(number)
        return NoiseChoice(
            noise=self._noise(number),
            inside=inside,
            generalisation_error=point.generalisation_error,
            uncertainty=point.uncertainty,
            test_loss=point.test_loss,
            evidence=point.evidence,
            status=point.status,
        )

    @property
    def tolerance(self) -> float:
        """The tolerance on the quantity at which a search ends."""
        if self.teacher.n_classes <= 3:
            return TOLERANCE_UP_TO_THREE_CLASSES
        return TOLERANCE_ABOVE_THREE_CLASSES

    def _is_as_good_without_noise(
        self, quantity: Callable[[MismatchedPoint], float], number: float
    ) -> bool:
        """Return whether the limit without noise, if there is one, differs by rounding only."""
        if not self._has_noiseless_limit():
            return False
        return quantity(self.at(0.0)) <= quantity(self.at(number)) + AS_GOOD * self.tolerance

    def _least(self, quantity: Callable[[MismatchedPoint], float]) -> Minimum:

        def objective(number: float) -> Trial:
            """Return the quantity at an assumed number, inf where it is not known."""
            try:
                value = quantity(self.at(number))
            except InvalidInput:  # so many flips leave no rule
                value = math.nan
            if math.isnan(value):
                return Trial(math.inf)
            return Trial(value)

        found = minimise(
            objective,
            self.start,
            self.tolerance,
            range_=(SMALLEST_NUMBER, LARGEST_NUMBER),
            limit_at_zero=self._has_noiseless_limit(),
        )
        if found is None:
            raise ComputationFailed(
                f"no fixed point was found for any {self.family} noise at alpha {self.alpha:g}"
            )
        return found

    def at(self, number: float) -> MismatchedPoint:
        """Return the point at a number of the noise, which is computed once."""
        if number not in self.points:
            spec = MismatchedBayes(self._noise(number))
            self.points[number] = mismatched_point(self.teacher, spec, self.alpha, self.tol)
        return self.points[number]

    def _noise(self, number: float) -> str:
        return as_channel(f"{self.family}:{number!r}").name

    def _has_noiseless_limit(self) -> bool:
        """Return whether the number 0 is a rule without noise, as Gaussian noise of variance 0."""
        try:
            return as_channel(f"{self.family}:0").noiseless
        except InvalidInput:
            return False
