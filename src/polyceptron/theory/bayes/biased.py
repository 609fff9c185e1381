"""Bayes-optimal learning of a teacher whose classes are not alike, with Gaussian weights.

The posterior's mean has fields ω ~ N(0, Q) on class differences, and z | ω ~ N(ω, C), C = R − Q.
With Z_y the chance of a label at ω + b* and C, and levels of products p = sθ,

    Q̂ = α E Σ_y ∇Z_y∇Z_yᵀ/Z_y,     C = ⟨p(I + pRQ̂)⁻¹R⟩

The answer is the label of largest chance, which need not be that of the largest ω + b*:

    P(t, p) = E Z_t 1[p = argmax Z]

Two and three classes: panels inside the orthants of ω + b*. Elsewhere, where the answer changes,
panels of different orders disagree: their spread, and how far coarse ones are, is the uncertainty.
"""

import numpy as np
from scipy.special import xlogy

from polyceptron.checks import difference_basis
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array, with_one_blas_thread
from polyceptron.numerics.estimate import Estimate
from polyceptron.problem.channels.correlated import label_chances
from polyceptron.problem.populations import AnyTeacher
from polyceptron.rows import Status
from polyceptron.sides import scores

_ORDER, _COARSE, _FINE = 8, range(8, 12), range(14, 18)  # of panels: for the law, and for scores
_ROUNDS, _CLOSE = 500, 1e-11  # and a last step, relative
_DEPTH = 4  # rounds that show where the next ones lead
_RARE = 1e-200  # a chance that stands for 0
_STEEP = 10.0  # |d ln ε/d ln C| at most


@with_one_blas_thread
def biased_bayes(
    teacher: AnyTeacher, alpha: float
) -> tuple[scores.PopulationScores, Array, float, Status]:
    """Scores of the answer after n = αd samples, Q (r, r), its part in the error's bar, status."""
    k, channel = teacher.n_classes, teacher.channel
    if k > 3 or not teacher.prior.gaussian:
        raise InvalidInput(
            "the Bayes-optimal student of unequal classes is known for mixtures, and for teachers "
            f"of two or three classes with Gaussian weights; got {teacher!r}"
        )
    T, levels = difference_basis(k), teacher.levels_of_features
    R, b = T.T @ teacher.field_covariance @ T, T.T @ teacher.offsets
    power = levels.variance[:, 0] * levels.signal

    def one_round(C: Array, order: int) -> tuple[Array, Array, Array]:
        """The next C, weights (n,) and Z (n, k)."""
        at = scores.TeacherFields(R - C, R, b, channel)
        law = scores.FieldsDistribution(
            np.ones(1), 0 * b[None], scores.lifted((R - C)[None]), b, at
        )
        parts = [(x @ T, w[0]) for _, x, w, _ in scores.orthant_panels(law, order, told=False)]
        means, weight = (np.concatenate(each) for each in zip(*parts, strict=True))
        Z, slopes = label_chances(channel, means, C)
        pull = slopes * np.sqrt(weight[:, None] / np.maximum(Z, _RARE))[:, :, None]
        pull = pull.reshape(-1, k - 1)
        gained = alpha * power[:, None, None] * (R @ (pull.T @ pull))
        new = np.tensordot(levels.fraction * power, np.linalg.solve(np.eye(k - 1) + gained, R), 1)
        return (new + new.T) / 2, weight, Z

    C, left = 0.999 * R, 1.0
    seen: list[tuple[Array, Array]] = []
    for _ in range(_ROUNDS):
        new = one_round(C, _ORDER)[0]
        left = float(np.abs(new - C).max() / np.trace(new))
        seen = [*seen[-_DEPTH:], (C.ravel(), (new - C).ravel())]
        X, F = (np.diff(each, axis=0).T for each in zip(*seen, strict=True))
        C = new - ((X + F) @ np.linalg.lstsq(F, seen[-1][1], rcond=1e-6)[0]).reshape(C.shape)
        if left <= _CLOSE or not np.linalg.eigvalsh([C, R - C]).min() > 0:
            C = new  # Anderson's method may lead outside
        if left <= _CLOSE:
            break
    made: list[dict[str, Estimate]] = []
    for orders in (_COARSE, _FINE):
        rules = [one_round(C, order) for order in orders]
        tables = np.array([(w[:, None] * Z).T @ np.eye(k)[Z.argmax(1)] for _, w, Z in rules])
        sums = [[-(w @ xlogy(Z, Z).sum(1)), w @ (1 - (Z * Z).sum(1))] for _, w, Z in rules]
        made.append(vars(scores.scores_of((tables, np.array(sums)))))
    coarse, fine = made
    moved = _STEEP * float(np.abs(rules[0][0] - C).max() / np.trace(C)) + _CLOSE
    far = {n: Estimate(v, s + np.abs(v - coarse[n].value)) for n, (v, s) in fine.items()}
    status = Status.OK if left <= _CLOSE else Status.NOT_CONVERGED
    return scores.PopulationScores(**far), R - C, moved, status
