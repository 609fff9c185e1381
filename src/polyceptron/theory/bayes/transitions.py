"""Where learning becomes possible and where it becomes easy.

    α_algo   the last fold of the solution curve, a local maximum of α(q̂): above it message passing
             arrives at the state of highest overlap without side knowledge
    α_IT     where that state takes over as the one of largest free entropy: above it the
             Bayes-optimal error is that of this state

The state of highest overlap is perfect learning where a finite prior meets a channel without width
(no noise, flips), Φ = −H + αΨ₀; else it is the last rising part of the curve. A curve without
folds has no transition. Between the two, the better state is, as far as is known, hard to find.

Perfect learning is one jump for all eigenvalues of the features: towards q̂ = ∞ v falls as
exp(−q̂p_minδ²/8), so that α = q̂/I ~ q̂√v → 0, and the highest fold is where the last directions
are recovered together with all others. Strong ones may jump before, to an overlap below 1.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from polyceptron.checks import check_tolerance
from polyceptron.display import ShortDisplay, steps
from polyceptron.numerics import short_products
from polyceptron.problem.populations import AnyTeacher, check_teacher
from polyceptron.rows import Status
from polyceptron.sides.weights.side import effort
from polyceptron.theory.bayes import solution_curve as bayes


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


@short_products
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
    check_teacher(teacher)
    work = effort(teacher)
    tol = check_tolerance(tol, work.transition)
    found, status = None, Status.OK
    levels = () if teacher.prior.gaussian else range(work.first, work.last + 1, 2)
    for level in steps(levels, growth=4):
        curve = bayes.curve_of(teacher, level)
        branches = curve.branches()
        peaks = [b for b in branches if b.rising and b is not branches[-1]]
        if not peaks:  # no fold
            found, status = None, Status.OK
            break
        last = max(peaks, key=lambda b: b.alpha_high)
        branches = curve.branches(curve.how_far(last.alpha_high))  # where the top state is
        relative = float(curve.alpha_uncertainty(curve.points(np.exp([last.high])))[0])
        found = _takeover(curve, branches), (last.alpha_high, relative * last.alpha_high)
        met = max(uncertainty for _, uncertainty in found) <= tol
        status = Status.OK if met else Status.TOLERANCE_NOT_MET
        if met:
            break
    names = teacher.model, teacher.n_classes, teacher.prior.name, teacher.noise.name
    it, algo = found or ((None, None), (None, None))
    return Transitions(*names, it[0], it[1], algo[0], algo[1], str(status))


def _takeover(curve: bayes.SolutionCurve, branches: list[bayes.Branch]) -> tuple[float, float]:
    """The largest α at which another stable state has the larger Φ, and its uncertainty.

    Along every rising part the lead Φ − Φ_top over the top state falls, as dΦ/dα = Ψ_out is smaller
    at smaller overlap: one root at most, or the part ends, at its fold, still in the lead.
    """
    rising = [b for b in branches if b.rising]
    top = None if curve.perfect else rising.pop()

    def lead(log_q_hat: float) -> tuple[float, bayes.CurvePoints, float]:
        """Φ here less that of the top state at the same α; the point; the slope of the lead."""
        at = curve.points(np.exp([log_q_hat]))
        if top is None:
            ahead, slope = curve.perfect_entropy(at.alpha), np.array(curve.channel.known_entropy)
        else:
            there = curve.meet([top], at.alpha)
            ahead, slope = there.free_entropy, there.channel_entropy
        return float((at.free_entropy - ahead)[0]), at, float((at.channel_entropy - slope)[0])

    found = []
    for branch in rising:
        low, high = branch.low, branch.high
        if top is not None and branch.alpha_low < top.alpha_low:
            if branch.alpha_high <= top.alpha_low:
                continue
            low = float(np.log(curve.meet([branch], np.array([top.alpha_low])).q_hat[0]))
        if lead(low)[0] <= 0:
            continue
        if lead(high)[0] <= 0:
            high = float(brentq(lambda x: lead(x)[0], low, high, xtol=1e-14))
        _, at, slope = lead(high)
        # Φ is off by its uncertainty, the top state's as much, and α by that over the lead's slope.
        u = (1 if top is None else 2) * float(curve.entropy_uncertainty(at)[0])
        found.append((float(at.alpha[0]), u / max(abs(slope), 1e-300)))
    return max(found)  # never empty: where the top state begins the one below it leads
