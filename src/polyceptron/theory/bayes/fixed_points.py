"""The Bayes-optimal error: fixed points at a given α = n/d, and the best of them (eq. SE_BO).

Classes are alike, so that the overlap q and its conjugate q̂ are numbers per class direction, and
eq. nishimori gives m = q and V = 1 − q, called v. `solution_curve.py` has all fixed points as one
curve α(q̂). On every branch of it, from one fold to the next, α is monotone in q̂ and met once at
most, as a root in ln q̂. Where α rises with q̂ the fixed point is stable.

    amp          the crossing of lowest overlap, which message passing reaches on its own
    informed     perfect learning where a finite prior has it, else the crossing of highest overlap
    optimal      the stable point of the largest free entropy (eq. free_entropy): Bayes-optimal
    unstable     where the curve comes down for the last time: the barrier before the last state
    unstable-i   where it comes down for the i-th time, if there are several barriers
    metastable-i where it rises for the i-th time, if that point is none of the first three

Stable and unstable points alternate. Where they do not, the status is "inconsistent".

The error is eq. generalization_Bayes. Its bar is that of the curve at the point
(`SolutionCurve.error_uncertainty`), infinite where a fold is so close that there may be no point. A
choice that the uncertainties of the free entropies leave open is refined as long as there is a
finer curve, and then "undecided": `_against` makes the bar reach to the other candidates.

A curve has a *level*, log2 of the random points in a replicate where integrals are sampled (k ≥ 4),
and may be cut at a q̂ to save time. Each α asks for finer curves until its tolerance is met
(`Request`); all α that need the same curve share it.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.checks import check_alphas, check_tolerance
from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.numerics import AnyArray, with_one_blas_thread
from polyceptron.problem.order import PaperMatrices
from polyceptron.problem.populations import AnyTeacher, check_teacher
from polyceptron.rows import BRANCHES, Row, Status, kind_of, make_row
from polyceptron.sides.weights.row_rule import effort
from polyceptron.theory.bayes.branches import Branch, CurvePoints
from polyceptron.theory.bayes.solution_curve import SolutionCurve, curve_of

RATE_IN_POINTS = 0.9  # errors fall as the number of points to this power, or faster
FEWEST_LEVELS = 3  # eight times the points and a sixth of the error: less does not pay for a curve


@dataclass(frozen=True, repr=False)
class FixedPoint(ShortDisplay):
    """One fixed point of the Bayes-optimal state evolution at α.

    `q` is the overlap and `v = 1 − q`, kept apart for precision. The error is on labels as drawn,
    `clean_error` against the noiseless rule; `other_error` is that of the farthest candidate for an
    undecided branch. `uncertainty` is that of the error at this α, infinite beside a fold.
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
        """The matrices m = q and V = 1 − q as the paper writes them."""
        return PaperMatrices.of_scalars(self.n_classes, self.q, self.q, self.v)


Points = list[FixedPoint]


def crossings(curve: SolutionCurve, alphas: list[float]) -> list[Points]:
    """Return the fixed points of each α > 0 in the order of overlap.

    They are named after the branch of the curve, "stable-1" for the first that rises and
    "unstable-1" for the first that falls. A "ghost" is the fold of a rising branch that ends just
    below α, within the curve's uncertainty: the branch may reach α after all.

    A curve is computed on grids of q̂, numbered from 0, that reach further and further:
    `curve.how_far(α)` is the number of the first that has all fixed points at α, and
    `curve.branches(number)` are those of a grid.
    """
    found: list[Points] = [[] for _ in alphas]
    grid_of_alpha = [curve.how_far(alpha) for alpha in alphas]
    for grid in sorted(set(grid_of_alpha)):
        wanted = [n for n, needed in enumerate(grid_of_alpha) if needed == grid]
        branches = curve.branches(grid)
        for n, point in _met(curve, branches, alphas, wanted):
            found[n].append(point)
        for n, point in _ghosts(curve, branches[:-1], alphas, wanted):
            found[n].append(point)
    return found


def _met(
    curve: SolutionCurve, branches: list[Branch], alphas: list[float], wanted: list[int]
) -> Iterator[tuple[int, FixedPoint]]:
    """Yield the fixed points at each wanted α, with the number of the α.

    `wanted` are numbers of α in `alphas`. Branch i ends in the fold to branch i + 1, but the last.
    """
    met = [(n, i) for n in wanted for i, b in enumerate(branches) if b.meets(alphas[n])]
    if not met:
        return
    branch_numbers = np.array([i for _, i in met])
    at = curve.meet([branches[i] for _, i in met], np.array([alphas[n] for n, _ in met]))
    gap = np.full(at.alpha.shape, np.inf)  # of ln α to the closer fold of the branch
    for i, branch in enumerate(branches[:-1]):
        distance = np.abs(np.log(at.alpha / branch.alpha_at_high))  # from the fold at its end
        beside = (branch_numbers == i) | (branch_numbers == i + 1)
        gap[beside] = np.minimum(gap[beside], distance[beside])
    points = _read(curve, at, curve.error_uncertainty(at, gap))
    names = _names(branches)
    for (n, i), point in zip(met, points, strict=True):
        yield n, replace(point, branch=names[i], alpha=alphas[n])


def _names(branches: list[Branch]) -> list[str]:
    """Return the names of the branches: stable-1, unstable-1, stable-2, …"""
    names = []
    count = {"stable": 0, "unstable": 0}
    for branch in branches:
        kind = "stable" if branch.rising else "unstable"
        count[kind] += 1
        names.append(f"{kind}-{count[kind]}")
    return names


def _ghosts(
    curve: SolutionCurve, ends_in_fold: list[Branch], alphas: list[float], wanted: list[int]
) -> Iterator[tuple[int, FixedPoint]]:
    """Yield the folds that are below a wanted α by no more than their uncertainty."""
    if not ends_in_fold:
        return
    at = curve.points(np.exp(np.array([branch.high for branch in ends_in_fold])))
    uncertainty = curve.alpha_uncertainty(at)
    ghosts = _read(curve, at, np.full(len(ends_in_fold), np.inf))
    for branch, ghost, u in zip(ends_in_fold, ghosts, uncertainty, strict=True):
        if branch.rising:
            for n in wanted:
                # One bar will do: unlike `BARS_OF_A_FOLD` this is not about hundreds of nodes.
                if 0 < np.log(alphas[n] / branch.alpha_at_high) <= u:
                    yield n, replace(ghost, alpha=alphas[n])


def _read(curve: SolutionCurve, at: CurvePoints, uncertainty: AnyArray) -> list[FixedPoint]:
    """Return n points of the curve as fixed points, with the uncertainty (n,) of their errors.

    They have the name of a ghost, which the caller replaces where they are none.
    """
    entropy_uncertainty = curve.entropy_uncertainty(at)
    error = curve.errors(at.v)
    clean_error = curve.clean_errors(at.v)
    return [
        FixedPoint(
            branch="ghost",
            alpha=float(at.alpha[i]),
            n_classes=curve.teacher.n_classes,
            q=float(at.q[i]),
            v=float(at.v[i]),
            q_hat=float(at.q_hat[i]),
            free_entropy=float(at.free_entropy[i]),
            free_entropy_uncertainty=float(entropy_uncertainty[i]),
            generalisation_error=float(error[i]),
            clean_error=float(clean_error[i]),
            uncertainty=float(uncertainty[i]),
        )
        for i in range(at.v.size)
    ]


@with_one_blas_thread
def fixed_points(
    teacher: AnyTeacher, alpha: ArrayLike, tol: float | None = None, *, branch: str = "all"
) -> list[FixedPoint]:
    """Compute all fixed points at each α: optimal, amp, informed, unstable, metastable.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    alpha : float or array_like
        n/d, one or several.
    tol : float, optional
        Wanted uncertainty of the generalisation error. Up to three classes integrals give all
        digits they can (11 and more; 6 for a continuous prior that is not Gaussian at k = 3), and
        `tol` (1e-8, there 1e-6) only decides the status. From four classes on sampling is refined
        until `tol` is met (1e-4 for Gaussian weights, 3e-4 for finite and 2e-3 for other ones), for
        each α on its own; a point that misses it has another status.
    branch : str
        If not 'all', only that one is refined and returned; 'unstable' and 'metastable' are all
        points of that kind.

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
    sampling = effort(teacher)  # first and last level, and the default tolerance
    tol = check_tolerance(tol, sampling.tolerance)
    requests = {a: Request(teacher, a, tol, branch, sampling.first, sampling.last) for a in alphas}
    while waiting := [request for request in requests.values() if request.answer is None]:
        _answer_next(waiting)
    return [point for alpha in alphas for point in requests[alpha].answer or ()]


def nothing_learned(n_classes: int) -> list[FixedPoint]:
    """Return the fixed points at α = 0: the error is that of a guess."""
    guess = 1 - 1 / n_classes
    return [
        FixedPoint(
            branch=branch,
            alpha=0.0,
            n_classes=n_classes,
            q=0.0,
            v=1.0,
            q_hat=0.0,
            free_entropy=0.0,
            free_entropy_uncertainty=0.0,
            generalisation_error=guess,
            clean_error=guess,
            uncertainty=0.0,
        )
        for branch in ("optimal", "amp")
    ]


@dataclass
class Request:
    """One α until its tolerance is met: which curve it needs next, and its answer.

    First the whole curve of the first level; while the tolerance is missed a finer one, cut at
    `until`; should that still rise to α at its end, the whole one of its level, and so on.
    """

    teacher: AnyTeacher
    alpha: float
    tol: float
    branch: str  # the one asked for, or "all"
    level: int  # log2 of the points of the next curve
    last_level: int
    until: float = math.inf  # the q̂ at which the next curve may end
    coarse: list[FixedPoint] = field(default_factory=list)  # met on the first curve
    answer: list[FixedPoint] | None = None

    @property
    def next_curve(self) -> tuple[int, float]:
        """The level and the end of the curve that is needed next."""
        return self.level, self.until

    def asked_for(self, points: list[FixedPoint]) -> list[FixedPoint]:
        """Return the points of the branch that is asked for."""
        if self.branch == "all":
            return points
        return [p for p in points if kind_of(p.branch) == self.branch]

    def receive(self, curve: SolutionCurve, met: list[FixedPoint]) -> None:
        """Take the fixed points met on a curve as the answer, or ask for a finer curve.

        On a curve that was cut, points behind its end are those of the first curve, which is whole.
        `curve.problem` says in words which property of every solution curve this one lacks.
        """
        if not self.coarse:
            self.coarse = met
        last = curve.branches()[-1]
        if self.until < math.inf and last.rising and last.alpha_at_high < self.alpha:
            self.until = math.inf  # the cut curve rises towards α, which it meets behind its end
            return
        beyond = [p for p in self.coarse if p.q_hat > self.until]
        chosen = self.asked_for(_branches(curve, self.alpha, met + beyond))
        worst = self._largest_uncertainty(chosen)
        if (worst <= self.tol and not curve.problem) or self.level == self.last_level:
            self.answer = [self._with_status(p) for p in chosen]
        else:
            self._refine(chosen, worst)

    def _largest_uncertainty(self, points: list[FixedPoint]) -> float:
        """Return the largest uncertainty of an error that the tolerance is about."""
        judged = ("optimal", "amp") if self.branch == "all" else (self.branch,)
        return max((p.uncertainty for p in points if kind_of(p.branch) in judged), default=0.0)

    def _with_status(self, point: FixedPoint) -> FixedPoint:
        """Return the point, whose status tells where the tolerance was missed."""
        if point.status is Status.OK and not point.uncertainty <= self.tol:
            return replace(point, status=Status.TOLERANCE_NOT_MET)
        return point

    def _refine(self, chosen: list[FixedPoint], worst: float) -> None:
        """Ask for a finer curve that ends after the fixed points and folds which matter.

        Go straight to the level that is needed. An open choice of branch takes the shortest step.
        """
        undecided = any(p.status is Status.UNDECIDED for p in chosen)
        levels = 0.0
        if self.tol < worst < math.inf and not undecided:
            levels = math.log2(worst / self.tol) / RATE_IN_POINTS
        self.level = min(self.level + max(FEWEST_LEVELS, math.ceil(levels)), self.last_level)
        # Unstable points only if asked for; "all", "optimal" and "amp" are judged by stable ones.
        kinds = (self.branch, "stable", "ghost")
        seen = [p.q_hat for p in self.coarse if kind_of(p.branch) in kinds]
        first = _first_curve(self.teacher)
        # Behind the last of these points, and folds close enough to α to move past it.
        self.until = first.enough(self.alpha, max(seen, default=math.inf))


def _first_curve(teacher: AnyTeacher) -> SolutionCurve:
    """Return the whole curve of the first level, the one that `_answer_next` met first."""
    return curve_of(teacher, effort(teacher).first, math.inf)


def _answer_next(waiting: list[Request]) -> None:
    """Meet the curve that is needed next with all requests that need the same one."""
    level, until = min(request.next_curve for request in waiting)
    together = [request for request in waiting if request.next_curve == (level, until)]
    positive = [request for request in together if request.alpha > 0]
    curve = curve_of(together[0].teacher, level, until)
    points_met = crossings(curve, [request.alpha for request in positive])
    for request, met in zip(positive, points_met, strict=True):
        request.receive(curve, met)
    for request in together:
        if request.alpha == 0:
            request.answer = request.asked_for(nothing_learned(request.teacher.n_classes))


def _branches(curve: SolutionCurve, alpha: float, met: list[FixedPoint]) -> list[FixedPoint]:
    """Return all fixed points at α by name, each with the rivals it cannot be told apart from.

    The order is optimal, amp, informed, unstable from the highest overlap down, metastable.
    """
    stable = [p for p in met if kind_of(p.branch) == "stable"]
    unstable = [p for p in met if kind_of(p.branch) == "unstable"]
    ghosts = [p for p in met if p.branch == "ghost"]
    if curve.perfect:
        stable.append(_perfect_learning(curve, alpha))
    named = _named(curve, stable, unstable, ghosts)
    may_be_incomplete = alpha < curve.overlooked_below  # states may be behind the curve's end
    if _out_of_order(curve, stable, unstable, ghosts, may_be_incomplete):
        return [replace(p, status=Status.INCONSISTENT) for p in named]
    if may_be_incomplete:
        return [_doubtful(p, stable[0].q_hat) for p in named]
    return named


def _named(curve: SolutionCurve, stable: Points, unstable: Points, ghosts: Points) -> Points:
    """Return the points under the names of `BRANCHES`, in the order of `_branches`."""
    best = max(stable, key=lambda p: p.free_entropy)
    first = stable[0]
    named = [
        replace(_against(best, _rivals(best, stable, ghosts)), branch="optimal"),
        replace(_against(first, _neighbours(first, stable, ghosts)), branch="amp"),
        replace(stable[-1], branch="informed"),
    ]
    barrier = _last_barrier(curve)
    for point in reversed(unstable):
        if point.branch == barrier:
            named.append(replace(point, branch="unstable"))
        else:
            named.append(point)
    for point in stable[1:-1]:
        if point is not best:
            named.append(replace(point, branch=f"meta{point.branch}"))  # metastable-2, …
    return named


def _doubtful(point: FixedPoint, first_q_hat: float) -> FixedPoint:
    """Mark the point as doubtful: there may be others beyond the end of the curve.

    Message passing stops at a state on the curve before it would meet these.
    """
    if point.branch == "amp" and first_q_hat < math.inf:
        return point
    return replace(point, status=Status.INCONSISTENT)


def _last_barrier(curve: SolutionCurve) -> str:
    """Return the name of the last falling branch, seen on the first curve if this one was cut.

    Should a finer curve have another number of folds, the barrier is called unstable-i.
    """
    whole = curve if curve.until == math.inf else _first_curve(curve.teacher)
    falling = [name for name in _names(whole.branches()) if kind_of(name) == "unstable"]
    return falling[-1] if falling else ""


def _perfect_learning(curve: SolutionCurve, alpha: float) -> FixedPoint:
    """Return the fixed point v = 0 of perfect learning."""
    return FixedPoint(
        branch="stable",
        alpha=alpha,
        n_classes=curve.teacher.n_classes,
        q=1.0,
        v=0.0,
        q_hat=math.inf,
        free_entropy=float(curve.perfect_entropy(alpha)),
        free_entropy_uncertainty=0.0,
        generalisation_error=float(curve.errors(np.zeros(1))[0]),
        clean_error=0.0,
        uncertainty=0.0,
    )


def _rivals(best: FixedPoint, stable: Points, ghosts: Points) -> Points:
    """Return the stable points whose free entropy may be larger than that of the best."""
    close = [
        c
        for c in (*stable, *ghosts)
        if c is not best
        and best.free_entropy - c.free_entropy
        <= best.free_entropy_uncertainty + c.free_entropy_uncertainty
    ]
    if math.isinf(best.uncertainty):  # it may end before this α
        close += [p for p in stable if p is not best]
    return close


def _neighbours(first: FixedPoint, stable: Points, ghosts: Points) -> Points:
    """Return where message passing may end instead of `first`: α may be beyond a close fold."""
    found = [ghost for ghost in ghosts if ghost.q_hat < first.q_hat]
    if math.isinf(first.uncertainty):
        found += stable[1:2]
    return found


def _out_of_order(
    curve: SolutionCurve, stable: Points, unstable: Points, ghosts: Points, may_be_incomplete: bool
) -> bool:
    """Say whether stable and unstable fixed points do not alternate, or the curve has a problem.

    Beside a fold, on a curve that was cut, and where states may be beyond the end of the curve
    points may be missing from the sequence.
    """
    if curve.problem:
        return True
    if ghosts or curve.until < math.inf or may_be_incomplete:
        return False
    if len(stable) != len(unstable) + 1:
        return True
    between = zip(stable[:-1], unstable, stable[1:], strict=True)
    return not all(low.q_hat < mid.q_hat < high.q_hat for low, mid, high in between)


def _against(point: FixedPoint, rivals: list[FixedPoint]) -> FixedPoint:
    """Return the point with an uncertainty that reaches to its rivals, if it has any.

    It reaches to each with the bar of either. An infinite bar says that there may be no such point,
    because a fold is close: then the error is that of another candidate, to which the bar reaches.
    """
    if not rivals:
        return point

    def distance(rival: FixedPoint) -> float:
        """Return how far the error of a rival is from that of the point."""
        return abs(rival.generalisation_error - point.generalisation_error)

    def reach(rival: FixedPoint) -> float:
        """Return how far the error of a rival may be from that of the point."""
        bars = [p.uncertainty for p in (point, rival) if math.isfinite(p.uncertainty)]
        return distance(rival) + max(bars, default=math.inf)  # neither may exist

    return replace(
        point,
        uncertainty=max(reach(rival) for rival in rivals),
        status=Status.UNDECIDED,
        other_error=max(rivals, key=distance).generalisation_error,
    )


def bayes_rows(
    teacher: AnyTeacher, alpha: ArrayLike, branch: str = "optimal", tol: float | None = None
) -> list[Row]:
    """Return rows of the Bayes-optimal theory; `branch` is one of BRANCHES or all."""
    rows = []
    for p in fixed_points(teacher, alpha, tol, branch=branch):
        found = asdict(p) | {"m": p.q, "V": p.v, "status": p.status}
        if teacher.channel.noiseless:
            found["clean_error"] = None
        for name in ("n_classes", "v", "q_hat", "free_entropy_uncertainty"):
            del found[name]
        rows.append(make_row(source="theory", **teacher.columns, estimator="bayes", **found))
    return rows
