"""The Bayes-optimal error: fixed points at a given α, and the best of them.

On every branch of the solution curve, from one fold to the next, α is monotone in q̂ and met once at
most, as a root in ln q̂.

    amp        the crossing of lowest overlap, which message passing reaches without side knowledge
    unstable   where the curve comes down: the barrier between the two
    informed   perfect learning where a finite prior has it, else the crossing of highest overlap
    optimal    whichever stable point has the largest free entropy: the Bayes-optimal answer

A choice that the uncertainties of the free entropies leave open is refined as long as there is a
finer curve, and then "undecided": the stated uncertainty reaches to the other candidate.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from polyceptron.checks import check_alphas, check_tolerance
from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.numerics import AnyArray, short_products
from polyceptron.problem.law import PaperMatrices
from polyceptron.problem.populations import AnyTeacher, check_teacher
from polyceptron.rows import BRANCHES, Status, make_row
from polyceptron.sides.weights.side import effort
from polyceptron.theory.bayes.solution_curve import CurvePoints, SolutionCurve, curve_of


@dataclass(frozen=True, repr=False)
class FixedPoint(ShortDisplay):
    """One fixed point of the Bayes-optimal state evolution at α.

    `q` is the overlap and `v = 1 − q`, kept apart for precision. The error is on labels as drawn,
    `clean_error` against the noiseless rule; `other_error` is the rival's of an undecided branch.
    """

    branch: str
    alpha: float
    n_classes: int
    q: float
    v: float
    q_hat: float
    free_entropy: float
    free_entropy_uncertainty: float
    generalisation_error: float
    clean_error: float
    uncertainty: float
    status: Status = Status.OK
    other_error: float | None = None

    @property
    def matrices(self) -> PaperMatrices:
        """m = q and V = 1 − q as the paper writes them."""
        return PaperMatrices.of_scalars(self.n_classes, self.q, self.q, self.v)


def crossings(curve: SolutionCurve, alphas: list[float]) -> list[list[FixedPoint]]:
    """For each α > 0 its fixed points in the order of overlap: each is stable or unstable.

    A ghost is the fold of a branch that ends just below α, within the curve's uncertainty.
    """
    found: list[list[FixedPoint]] = [[] for _ in alphas]
    how_far = [curve.how_far(a) for a in alphas]
    for far in sorted(set(how_far)):
        wanted = [n for n, at in enumerate(how_far) if at == far]
        branches = curve.branches(far)
        folds = branches[:-1]  # each ends in one
        met = [
            (n, i)
            for n in wanted
            for i, b in enumerate(branches)
            if min(b.alpha_low, b.alpha_high) < alphas[n] <= max(b.alpha_low, b.alpha_high)
        ]
        if met:
            stretch = np.array([i for _, i in met])
            at = curve.meet([branches[i] for i in stretch], np.array([alphas[n] for n, _ in met]))
            gap = np.full(at.alpha.shape, np.inf)  # of ln α to the next fold
            for i, fold in enumerate(folds):
                distance = np.abs(np.log(at.alpha / fold.alpha_high))
                beside = (stretch == i) | (stretch == i + 1)
                gap[beside] = np.minimum(gap[beside], distance[beside])
            points = _read(curve, at, curve.error_uncertainty(at, gap))
            for (n, i), point in zip(met, points, strict=True):
                kind = "stable" if branches[i].rising else "unstable"
                found[n].append(replace(point, branch=kind, alpha=alphas[n]))
        if folds:
            at = curve.points(np.exp(np.array([fold.high for fold in folds])))
            ghosts = _read(curve, at, np.full(len(folds), np.inf))
            for fold, ghost, u in zip(folds, ghosts, curve.alpha_uncertainty(at), strict=True):
                for n in wanted:
                    if fold.rising and 0 < np.log(alphas[n] / fold.alpha_high) <= u:
                        found[n].append(replace(ghost, alpha=alphas[n]))
    return found


def _read(curve: SolutionCurve, at: CurvePoints, uncertainty: AnyArray) -> list[FixedPoint]:
    """Points of the curve as fixed points, with the uncertainty (n,) of their errors."""
    columns = (
        *(at.alpha, np.full(at.v.shape, curve.teacher.n_classes), at.q, at.v, at.q_hat),
        *(at.free_entropy, curve.entropy_uncertainty(at)),
        *(curve.errors(at.v), curve.clean_errors(at.v), uncertainty),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [FixedPoint("ghost", *row) for row in rows]


@short_products
def fixed_points(
    teacher: AnyTeacher, alpha: Any, tol: float | None = None, *, branch: str = "all"
) -> list[FixedPoint]:
    """All fixed points at each α: branches optimal, amp, informed, and unstable where it exists.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    alpha : float or array_like
        n/d, one or several.
    tol : float, optional
        Wanted uncertainty of the generalisation error. Up to three classes the rules give all
        they can (11 digits and more; 6 for a continuous prior that is not Gaussian at k = 3), and
        `tol` (1e-8, there 1e-6) only decides the status. From four classes on sampling is refined
        until `tol` is met (1e-4 for Gaussian weights, 3e-4 for finite and 2e-3 for other ones), for
        each α on its own; a point that misses it has another status.
    branch : str
        If not 'all', only that one is refined and returned.

    Returns
    -------
    list of FixedPoint

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> point = fixed_points(Teacher(2), 1.0)[0]
    >>> round(point.generalisation_error, 6)
    0.254373
    """
    check_teacher(teacher)
    alphas = check_alphas(alpha)
    if branch not in (*BRANCHES, "all"):
        raise InvalidInput(f"unknown branch {branch!r}: allowed are {', '.join(BRANCHES)} and all")
    work, k, guess = effort(teacher), teacher.n_classes, 1 - 1 / teacher.n_classes
    tol = check_tolerance(tol, work.tolerance)
    aim = ("optimal", "amp") if branch == "all" else (branch,)
    last, done = work.last, dict[float, list[FixedPoint]]()
    # Each α goes its own way: its level, and where a finer curve may end, as told by the first.
    way, coarse = dict.fromkeys(alphas, (work.first, math.inf)), dict[float, list[FixedPoint]]()
    while len(done) < len(way):
        level, until = min(way[a] for a in way if a not in done)
        here = [a for a in way if a not in done and way[a] == (level, until)]
        curve = curve_of(teacher, level, until)
        positive = [a for a in here if a > 0]
        met = dict(zip(positive, crossings(curve, positive), strict=True))
        coarse = met | coarse
        for a in here:
            if a > 0:
                end = curve.branches()[-1]
                if until < math.inf and end.rising and end.alpha_high < a:  # it was cut too short
                    way[a] = level, math.inf
                    continue
                found = _branches(curve, a, met[a] + [p for p in coarse[a] if p.q_hat > until])
            else:
                nothing = (a, k, 0.0, 1.0, 0.0, 0.0, 0.0, guess, guess, 0.0)
                found = [FixedPoint(name, *nothing) for name in ("optimal", "amp")]
            chosen = [p for p in found if branch in ("all", p.branch)]
            worst = max((p.uncertainty for p in chosen if p.branch in aim), default=0.0)
            if worst <= tol or level == last:
                done[a] = [
                    replace(p, status=Status.TOLERANCE_NOT_MET)
                    if p.status is Status.OK and not p.uncertainty <= tol
                    else p
                    for p in chosen
                ]
            else:
                # Errors fall as the points to the power 0.9 or so: go straight to what is
                # needed; an open choice of branch takes one step at a time.
                open_ = worst == math.inf or any(p.status is Status.UNDECIDED for p in chosen)
                more = 0 if open_ else math.log2(worst / tol) / 0.9
                finer = min(level + max(3, math.ceil(more)), last)
                seen = [p.q_hat for p in coarse[a] if p.branch in (branch, "stable", "ghost")]
                way[a] = finer, curve_of(teacher, work.first).enough(a, max(seen, default=math.inf))
    return [p for a in alphas for p in done[a]]


def _branches(curve: SolutionCurve, alpha: float, met: list[FixedPoint]) -> list[FixedPoint]:
    """The branches at α, each with the rivals that it cannot be told apart from."""
    stable, falling, ghosts = (
        [c for c in met if c.branch == kind] for kind in ("stable", "unstable", "ghost")
    )
    if curve.perfect:
        entropy, floor = float(curve.perfect_entropy(alpha)), float(curve.errors(np.zeros(1))[0])
        known = (1.0, 0.0, math.inf, entropy, 0.0, floor, 0.0, 0.0)
        stable.append(FixedPoint("stable", alpha, curve.teacher.n_classes, *known))
    best, first = max(stable, key=lambda c: c.free_entropy), stable[0]
    rivals = [
        c
        for c in (*stable, *ghosts)
        if c is not best
        and best.free_entropy - c.free_entropy
        <= best.free_entropy_uncertainty + c.free_entropy_uncertainty
    ]
    if math.isinf(best.uncertainty):  # it may end before this α
        rivals += [c for c in stable if c is not best]
    # A fold may be too close to say on which side of it α is.
    beside = [c for c in ghosts if c.q_hat < first.q_hat]
    beside += stable[1:2] if math.isinf(first.uncertainty) else []
    return [
        replace(_against(best, rivals), branch="optimal"),
        replace(_against(first, beside), branch="amp"),
        replace(stable[-1], branch="informed"),
        *falling[-1:],
    ]


def _against(at: FixedPoint, rivals: list[FixedPoint]) -> FixedPoint:
    """The point with an uncertainty that reaches to its rivals, if it has any."""
    if not rivals:
        return at
    far = max(rivals, key=lambda c: abs(c.generalisation_error - at.generalisation_error))
    apart = abs(far.generalisation_error - at.generalisation_error)
    reach = [c.uncertainty for c in (at, far) if math.isfinite(c.uncertainty)]
    wide, other = apart + max(reach, default=0.0), far.generalisation_error
    return replace(at, uncertainty=wide, status=Status.UNDECIDED, other_error=other)


def bayes_rows(
    teacher: AnyTeacher, alpha: Any, branch: str = "optimal", tol: float | None = None
) -> list[dict[str, Any]]:
    """Rows of the Bayes-optimal theory; `branch` is one of BRANCHES or all."""
    rows = []
    for p in fixed_points(teacher, alpha, tol, branch=branch):
        found = asdict(p) | {"m": p.q, "V": p.v, "status": p.status}
        if teacher.channel.noiseless:
            found["clean_error"] = None
        for name in ("n_classes", "v", "q_hat", "free_entropy_uncertainty"):
            del found[name]
        rows.append(make_row(source="theory", **teacher.columns, estimator="bayes", **found))
    return rows
