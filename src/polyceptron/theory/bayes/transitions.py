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
from typing import Any, NamedTuple

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
from polyceptron.theory.bayes.solution_curve import Branch, CurvePoints, SolutionCurve


@dataclass(frozen=True, repr=False)
class Transitions(ShortDisplay):
    """α_IT and α_algo with their uncertainties; both None where there is no transition."""

    model: str
    n_classes: int
    prior: str
    noise: str
    alpha_it: float | None
    alpha_it_uncertainty: float | None
    alpha_algo: float | None
    alpha_algo_uncertainty: float | None
    status: str

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    def phase(self, alpha: float) -> str:
        """ "impossible", "hard" or "easy" (perfect) learning at α ("no transition" if none)."""
        if self.alpha_it is None or self.alpha_algo is None:
            return "no transition"
        if alpha < self.alpha_it:
            return "impossible"
        return "hard" if alpha < self.alpha_algo else "easy"


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
        """Whether jumps are in order and the best error makes its last one first."""
        if not self.optimal or not self.amp:
            return not self.optimal and not self.amp
        it, algo = self.optimal[-1], self.amp[-1]
        in_order = list(self.optimal) == sorted(self.optimal) and list(self.amp) == sorted(self.amp)
        return in_order and it.alpha - it.uncertainty <= algo.alpha + algo.uncertainty


@with_one_blas_thread
def transitions(teacher: AnyTeacher, tol: float | None = None) -> Transitions:
    """α_IT and α_algo of a teacher.

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
    found = all_jumps(teacher, tol)
    it = found.optimal[-1] if found.optimal else None
    algo = found.amp[-1] if found.amp else None
    return Transitions(
        model=teacher.model,
        n_classes=teacher.n_classes,
        prior=teacher.prior.name,
        noise=teacher.noise.name,
        alpha_it=None if it is None else it.alpha,
        alpha_it_uncertainty=None if it is None else it.uncertainty,
        alpha_algo=None if algo is None else algo.alpha,
        alpha_algo_uncertainty=None if algo is None else algo.uncertainty,
        status=str(found.status),
    )


@with_one_blas_thread
def all_jumps(teacher: AnyTeacher, tol: float | None = None) -> Jumps:
    """Every α at which the best error, or that of message passing, jumps.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    tol : float, optional
        Of α_IT and α_algo, as in `transitions`.

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
    found = Jumps((), (), Status.OK)
    if teacher.prior.gaussian:
        return found
    for level in steps(range(work.first, work.last + 1, 2), growth=4):
        curve = solution_curve.curve_of(teacher, level)
        found = _jumps_of(curve, tol)
        if found.status is Status.OK or curve.overlooked_below == np.inf:
            break
    return found


def _jumps_of(curve: SolutionCurve, tol: float) -> Jumps:
    """The jumps of one curve, with the status that they deserve."""
    ends_in_fold = [branch for branch in curve.branches() if branch.rising]
    if not curve.perfect:
        ends_in_fold.pop()
    if not ends_in_fold:
        status = Status.INCONSISTENT if curve.problem else Status.OK
        return Jumps((), (), status)
    highest = max(branch.alpha_high for branch in ends_in_fold)
    branches = curve.branches(curve.how_far(highest))  # those on which the highest state is too
    optimal = tuple(_takeovers(curve, [branch for branch in branches if branch.rising]))
    amp = tuple(_record_humps(curve, ends_in_fold))
    found = Jumps(optimal, amp, Status.OK)
    overlooked = optimal and optimal[-1].alpha < curve.overlooked_below
    if curve.problem or overlooked or not found.consistent:
        return found._replace(status=Status.INCONSISTENT)
    if max(optimal[-1].uncertainty, amp[-1].uncertainty) > tol:
        return found._replace(status=Status.TOLERANCE_NOT_MET)
    return found


def _record_humps(curve: SolutionCurve, ends_in_fold: list[Branch]) -> Iterator[JumpPoint]:
    """The humps above all earlier ones, where message passing leaves its branch."""
    highest = 0.0
    for branch in ends_in_fold:
        if branch.alpha_high > highest:
            highest = branch.alpha_high
            fold = curve.points(np.exp([branch.high]))
            relative = float(curve.alpha_uncertainty(fold)[0])
            yield JumpPoint(highest, relative * highest)


def _takeovers(curve: SolutionCurve, rising: list[Branch]) -> Iterator[JumpPoint]:
    """The α at which the state of largest free entropy changes, from the lowest overlap on.

    Along a branch the lead of its Φ over that of a state of larger overlap falls, so that each
    state takes over once at most. The first that does is followed next.
    """
    states: list[Branch | None] = [*rising]
    if curve.perfect:
        states.append(None)  # perfect learning
    place = 0
    while place < len(states) - 1:
        duels = []
        for next_place in range(place + 1, len(states)):
            branch = states[place]
            assert branch is not None  # only the last state is perfect learning
            takeover = Duel(curve, branch, states[next_place]).takeover()
            if takeover is not None:
                duels.append((takeover.alpha, -next_place, takeover))
        if not duels:  # the branch never leads over any later one
            place += 1
            continue
        _, negative_place, first = min(duels)
        place = -negative_place
        yield first


class Duel(NamedTuple):
    """The free entropies of a branch and of a state of larger overlap, at equal α."""

    curve: SolutionCurve
    branch: Branch
    rival: Branch | None  # None is perfect learning

    def takeover(self) -> JumpPoint | None:
        """Where the rival takes over, if it does while both exist."""
        low = self.branch.low
        high = self.branch.high
        if self.rival is not None:
            if self.branch.alpha_high <= self.rival.alpha_low:
                return None  # it ends before the rival begins
            if self.branch.alpha_low >= self.rival.alpha_high:
                return None
            if self.branch.alpha_low < self.rival.alpha_low:
                low = self._place(self.rival.alpha_low)
            if self.rival.alpha_high < self.branch.alpha_high:
                high = self._place(self.rival.alpha_high)
        if self.lead(low) <= 0:
            return None
        if self.lead(high) <= 0:
            high = float(brentq(self.lead, low, high, xtol=1e-14))
        elif high < self.branch.high:
            return None  # the rival ends first, and never leads
        return self._jump(high)

    def lead(self, log_q_hat: float) -> float:
        """Φ of the branch at ln q̂ less that of the rival at the same α."""
        at = self.curve.points(np.exp([log_q_hat]))
        if self.rival is None:
            ahead = self.curve.perfect_entropy(at.alpha)
        else:
            ahead = self.curve.meet([self.rival], at.alpha).free_entropy
        return float((at.free_entropy - ahead)[0])

    def _place(self, alpha: float) -> float:
        """ln q̂ at which the branch has α."""
        return float(np.log(self.curve.meet([self.branch], np.array([alpha])).q_hat[0]))

    def _jump(self, log_q_hat: float) -> JumpPoint:
        """α there; it is off by the uncertainty of the lead over its slope."""
        at: CurvePoints = self.curve.points(np.exp([log_q_hat]))
        uncertainty = float(self.curve.entropy_uncertainty(at)[0])
        if self.rival is None:
            rival_slope = self.curve.channel.known_entropy
        else:
            met = self.curve.meet([self.rival], at.alpha)
            rival_slope = float(met.channel_entropy[0])
            uncertainty *= 2  # the rival's is as large
        slope = abs(float(at.channel_entropy[0]) - rival_slope)
        return JumpPoint(float(at.alpha[0]), uncertainty / max(slope, 1e-300))
