"""Where learning becomes possible and where it becomes easy.

The curve α(q̂) may have several humps (`solution_curve.py`), and so several jumps:

    message passing   follows the branch of lowest overlap. It jumps where a hump ends that is
                      higher than all humps before it; α_algo is the last of these jumps, the
                      highest hump. Above it the state of highest overlap is reached without side
                      knowledge.
    the best error    is that of the stable state of largest free entropy Φ. As dΦ/dα = Ψ_out grows
                      with the overlap, states take over from one another in the order of their
                      overlaps; α_IT is the last of these jumps, to the state of highest overlap.

The state of highest overlap is perfect learning where a finite prior meets a channel without width
(no noise, flips), Φ = −H + αΨ₀; else it is the last rising part of the curve. A curve without
folds has no transition. Between α_IT and α_algo the better state is, as far as is known, hard to
find. α_IT ≤ α_algo always: otherwise a fold was overlooked, and the status is "inconsistent".

Perfect learning is one jump for all eigenvalues of the features: towards q̂ = ∞ v falls as
exp(−q̂p_minδ²/8), so that α = q̂/I ~ q̂√v → 0, and the highest fold is where the last directions
are recovered together with all others. Strong ones may jump before, to an overlap below 1.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from polyceptron.checks import check_tolerance
from polyceptron.display import ShortDisplay
from polyceptron.numerics import with_one_blas_thread
from polyceptron.problem.populations import AnyTeacher, check_teacher
from polyceptron.progress import steps
from polyceptron.rows import Status
from polyceptron.sides.weights.row_rule import effort
from polyceptron.theory.bayes import solution_curve
from polyceptron.theory.bayes.branches import Branch, CurvePoints
from polyceptron.theory.bayes.solution_curve import SolutionCurve


@dataclass(frozen=True, repr=False)
class Transitions(ShortDisplay):
    """α_IT and α_algo with their uncertainties; both are None where there is no transition."""

    model: str
    n_classes: int
    prior: str
    noise: str
    alpha_it: float | None
    alpha_it_uncertainty: float | None
    alpha_algo: float | None
    alpha_algo_uncertainty: float | None
    status: str

    def as_dict(self) -> dict[str, object]:
        """Return the fields by name."""
        return asdict(self)

    def phase(self, alpha: float) -> str:
        """Return how perfect learning is at α: "impossible", "hard" or "easy".

        Without a transition it is "no transition" at every α.
        """
        if self.alpha_it is None or self.alpha_algo is None:
            return "no transition"
        if alpha < self.alpha_it:
            return "impossible"
        if alpha < self.alpha_algo:
            return "hard"
        return "easy"


class JumpPoint(NamedTuple):
    """An α at which an error jumps, and its uncertainty."""

    alpha: float
    uncertainty: float


class Jumps(NamedTuple):
    """All jumps of the best error and of message passing, each in the order of α."""

    optimal: tuple[JumpPoint, ...]
    amp: tuple[JumpPoint, ...]
    status: Status

    @property
    def consistent(self) -> bool:
        """Say whether jumps are in the order of α and α_IT ≤ α_algo within their uncertainties."""
        if not self.optimal or not self.amp:
            return not self.optimal and not self.amp
        if list(self.optimal) != sorted(self.optimal) or list(self.amp) != sorted(self.amp):
            return False
        it = self.optimal[-1]
        algo = self.amp[-1]
        return it.alpha - it.uncertainty <= algo.alpha + algo.uncertainty

    def last(self) -> tuple[JumpPoint | None, JumpPoint | None]:
        """Return α_IT and α_algo, None where there is no jump."""
        it = self.optimal[-1] if self.optimal else None
        algo = self.amp[-1] if self.amp else None
        return it, algo


@with_one_blas_thread
def transitions(teacher: AnyTeacher, tol: float | None = None) -> Transitions:
    """Compute α_IT and α_algo of a teacher.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    tol : float, optional
        By default 1e-6 for k ≤ 3; above, 1e-3 from tables and 3e-3 sampled.

    Returns
    -------
    Transitions

    Examples
    --------
    >>> from polyceptron.problem import Perceptron, Teacher
    >>> t = transitions(Perceptron("rademacher"))
    >>> round(t.alpha_it, 4), round(t.alpha_algo, 4)
    (1.2447, 1.4926)
    >>> transitions(Teacher(3, "gaussian")).alpha_it is None
    True
    """
    jumps = all_jumps(teacher, tol)
    it, algo = jumps.last()
    return Transitions(
        model=teacher.model,
        n_classes=teacher.n_classes,
        prior=teacher.prior.name,
        noise=teacher.noise.name,
        alpha_it=None if it is None else it.alpha,
        alpha_it_uncertainty=None if it is None else it.uncertainty,
        alpha_algo=None if algo is None else algo.alpha,
        alpha_algo_uncertainty=None if algo is None else algo.uncertainty,
        status=str(jumps.status),
    )


@with_one_blas_thread
def all_jumps(teacher: AnyTeacher, tol: float | None = None) -> Jumps:
    """Find every α at which the best error, or that of message passing, jumps.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    tol : float, optional
        The wanted uncertainty of α_IT and α_algo, as in `transitions`.

    Returns
    -------
    Jumps

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> close = Teacher(2, ((-1, 0, 1.1), (0.3, 0.4272727272727273, 0.2727272727272727)))
    >>> [round(jump.alpha, 3) for jump in all_jumps(close).amp]
    [4.203, 23.157]
    """
    check_teacher(teacher)
    work = effort(teacher)
    tol = check_tolerance(tol, work.transition)
    jumps = Jumps((), (), Status.OK)
    if teacher.prior.gaussian:
        return jumps
    for level in steps(range(work.first, work.last + 1, 2), growth=4):
        curve = solution_curve.curve_of(teacher, level)
        jumps = _jumps_of(curve, tol)
        if jumps.status is Status.OK or curve.overlooked_below == np.inf:
            break
    return jumps


def _jumps_of(curve: SolutionCurve, tol: float) -> Jumps:
    """Return the jumps of one curve, with the status that they deserve."""
    ends_in_fold = [branch for branch in curve.branches() if branch.rising]
    if not curve.perfect:
        ends_in_fold.pop()
    if not ends_in_fold:
        status = Status.INCONSISTENT if curve.problem else Status.OK
        return Jumps((), (), status)
    highest = max(branch.alpha_at_high for branch in ends_in_fold)
    branches = curve.branches(curve.how_far(highest))  # those on which the highest state is too
    rising = [branch for branch in branches if branch.rising]
    optimal = tuple(_takeovers(curve, rising))
    amp = tuple(_record_humps(curve, ends_in_fold))
    jumps = Jumps(optimal, amp, Status.OK)
    return jumps._replace(status=_status_of(curve, jumps, tol))


def _status_of(curve: SolutionCurve, jumps: Jumps, tol: float) -> Status:
    """Return the status of the jumps of a curve with folds; `jumps.amp` is not empty."""
    overlooked = jumps.optimal and jumps.optimal[-1].alpha < curve.overlooked_below
    if curve.problem or overlooked or not jumps.consistent:
        return Status.INCONSISTENT
    if max(jumps.optimal[-1].uncertainty, jumps.amp[-1].uncertainty) > tol:
        return Status.TOLERANCE_NOT_MET
    return Status.OK


def _record_humps(curve: SolutionCurve, ends_in_fold: list[Branch]) -> Iterator[JumpPoint]:
    """Yield the humps above all earlier ones, where message passing leaves its branch."""
    highest = 0.0
    for branch in ends_in_fold:
        if branch.alpha_at_high > highest:
            highest = branch.alpha_at_high
            fold = curve.points(np.exp([branch.high]))
            relative = float(curve.alpha_uncertainty(fold)[0])
            yield JumpPoint(highest, relative * highest)


def _takeovers(curve: SolutionCurve, rising: list[Branch]) -> Iterator[JumpPoint]:
    """Yield the α at which the state of largest free entropy changes, from the lowest overlap on.

    Along a branch the lead of its Φ over that of a state of larger overlap falls, so that each
    state takes over once at most. The first that does is followed next.
    """
    states: list[Branch | None] = [*rising]
    if curve.perfect:
        states.append(None)  # perfect learning
    current = 0
    while current < len(states) - 1:
        first = _first_takeover(curve, states, current)
        if first is None:  # the branch never leads over any later one
            current += 1
        else:
            jump, current = first
            yield jump


def _first_takeover(
    curve: SolutionCurve, states: list[Branch | None], current: int
) -> tuple[JumpPoint, int] | None:
    """Return the first jump from a state to one of larger overlap, and the number of that one.

    Of two at the same α the state of larger overlap counts.
    """
    branch = states[current]
    assert branch is not None  # only the last state is perfect learning
    jumps = []
    for number in range(current + 1, len(states)):
        jump = Duel(curve, branch, states[number]).takeover()
        if jump is not None:
            jumps.append((jump, number))
    if not jumps:
        return None
    return min(jumps, key=lambda jump_to: (jump_to[0].alpha, -jump_to[1]))


class Duel(NamedTuple):
    """The free entropies of a branch and of a state of larger overlap, at equal α."""

    curve: SolutionCurve
    branch: Branch
    rival: Branch | None  # None is perfect learning

    def takeover(self) -> JumpPoint | None:
        """Return the point where the rival takes over, if it does while both exist."""
        both = self._where_both_exist()
        if both is None:
            return None
        low, high = both
        if self.lead(low) <= 0:
            return None
        if self.lead(high) <= 0:
            return self._jump(float(brentq(self.lead, low, high, xtol=1e-14)))
        if high < self.branch.high:
            return None  # the rival ends first, and never leads
        return self._jump(high)

    def _where_both_exist(self) -> tuple[float, float] | None:
        """Return the part of the branch, in ln q̂, at whose α the rival exists; None if none is."""
        low = self.branch.low
        high = self.branch.high
        if self.rival is None:
            return low, high
        if self.branch.alpha_at_high <= self.rival.alpha_at_low:
            return None  # the branch ends before the rival begins
        if self.branch.alpha_at_low >= self.rival.alpha_at_high:
            return None
        if self.branch.alpha_at_low < self.rival.alpha_at_low:
            low = self._place(self.rival.alpha_at_low)
        if self.rival.alpha_at_high < self.branch.alpha_at_high:
            high = self._place(self.rival.alpha_at_high)
        return low, high

    def lead(self, log_q_hat: float) -> float:
        """Return Φ of the branch at ln q̂ less that of the rival at the same α."""
        point = self.curve.points(np.exp([log_q_hat]))
        if self.rival is None:
            ahead = self.curve.perfect_entropy(point.alpha)
        else:
            ahead = self.curve.meet([self.rival], point.alpha).free_entropy
        return float((point.free_entropy - ahead)[0])

    def _place(self, alpha: float) -> float:
        """Return the ln q̂ at which the branch has α."""
        return float(np.log(self.curve.meet([self.branch], np.array([alpha])).q_hat[0]))

    def _jump(self, log_q_hat: float) -> JumpPoint:
        """Return α at ln q̂; it is off by the uncertainty of the lead over its slope."""
        point: CurvePoints = self.curve.points(np.exp([log_q_hat]))
        uncertainty = float(self.curve.entropy_uncertainty(point)[0])
        if self.rival is None:
            rival_slope = self.curve.channel.known_entropy
        else:
            met = self.curve.meet([self.rival], point.alpha)
            rival_slope = float(met.channel_entropy[0])
            uncertainty *= 2  # the rival's is as large
        slope = abs(float(point.channel_entropy[0]) - rival_slope)
        return JumpPoint(float(point.alpha[0]), uncertainty / max(slope, 1e-300))
