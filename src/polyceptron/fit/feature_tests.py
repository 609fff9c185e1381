"""Does a feature matter, given the others? Tests that hold where n/d is not large.

Weights fitted to n samples of d features have more noise than n → ∞ tells, so that Wald's test
rejects too often. Here the fit *without* feature j is asked instead: let g⁻_i (r,) be the slope of
the loss at its fields of sample i, in r coordinates of the k classes. If the label does not depend
on feature j given the others, the part e_j of the feature that the others do not explain is noise
that g⁻ has not seen. In Gaussian features of precision matrix Ω its variance is 1/Ω_jj, and

    Σ_i e_ij g⁻_i ~ N(0, B⁻/Ω_jj),   B⁻ = Σ_il g⁻_i (1 − P)_il g⁻_lᵀ       for any loss and ridge.

With Ω unknown, e_j is the residual of a regression on the other features, P projects on these, and
the share R² of ‖e_j‖² along g⁻ is that of a regression of pure noise: −(ν + r/2 − 1) ln(1 − R²) is
χ² of r degrees but for 1/ν², ν = n − rank P − r. With Ω known, e_j = (Ωx)_j/Ω_jj, P projects on the
intercept, and the square of the sum in units of its variance is χ².

The fit without j follows from that with it by Newton steps whose matrix stays K, the Hessian at the
fit with all features: its inverse without j is K⁻¹ − (K⁻¹)_{·j} κ⁻¹ (K⁻¹)_{j·}, κ = (K⁻¹)_jj. Where
these do not arrive, since much depends on j, the Hessian is made anew at each.

As weights of the fit itself, with g and H the loss's slope and curvature there,

    w̃_j = ŵ_j − Ω_jj A⁻¹ Σ_i e_ij g_i,   of covariance Ω_jj A⁻¹BA⁻¹,   B = Σ_il g_i (1 − P)_il g_lᵀ,
    A = Σ_i ((1 − P)(H − HXK⁻¹XᵀH))_ii     (with Ω known the sum of H_i − H_iL_iH_i, L leverage)

removes the pull of the ridge; without a ridge w̃ = ŵ. Where n/d is not large w̃_j is a multiple of
the true weight, the same for all features, plus this noise.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.linalg
import scipy.stats
from numpy.typing import NDArray

from polyceptron.checks import difference_basis
from polyceptron.data.checks import Labels
from polyceptron.errors import InvalidInput
from polyceptron.fit.feature_reasons import DETERMINED, reasons
from polyceptron.fit.leave_one_out import leverages
from polyceptron.fit.solvers.newton_step import whole_hessian
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss

SPARE = 20  # samples beyond the features that a regression of each on the others needs
_MOST = 8000  # weights, whose matrix is inverted
_BLOCK = 4_000_000  # numbers at once
_FLAT = 1e-7  # relative singular value of the scaled features that counts as 0
_STRAY = 0.05  # of the root of its sum of squares, that the gradient at a minimiser stays below
_STEPS, _ENOUGH = (10, 40), 1e-6  # without a feature: steps of either kind, the last one's gain

UNDETERMINED = (
    "the weights are not determined by the samples, as without a ridge where classes can be told "
    "apart: fit with a ridge above 0"
)


class Fitted(NamedTuple):
    """Scaled features X (n, d), labels, and the fit: weights W (d, k), offset (k,) of `loss`.

    `counts` (n,) say how often each sample is there, `factors` (n,) weigh its loss; `pull` (d,) is
    the ridge on ‖w_j‖²/2 of each feature; `basis` (k, r) are the coordinates of the classes.
    """

    X: Array
    y: Labels
    W: Array
    offset: Array
    loss: Loss
    basis: Array
    counts: Array
    factors: Array
    pull: Array
    intercept: bool

    @property
    def rows(self) -> Array:
        """Features times √counts, and behind them the column of the intercept if there is one."""
        root = np.sqrt(self.counts)[:, None]
        return np.hstack([root * self.X, root]) if self.intercept else root * self.X

    def slopes(self, fields: Array) -> Array:
        """√counts·g (…, n, r) at fields (…, n, k)."""
        flat = fields.reshape(-1, fields.shape[-1])
        y = np.tile(self.y, len(flat) // self.y.size)
        g = (self.loss.gradient(flat, y) @ self.basis).reshape(*fields.shape[:-1], -1)
        return np.asarray(g * (self.factors * np.sqrt(self.counts))[:, None])

    def curvatures(self, fields: Array) -> Array:
        """H (n, r, r) at fields (n, k), times the samples' factors."""
        H = self.basis.T @ self.loss.hessian(fields, self.y) @ self.basis
        return np.asarray(H * self.factors[:, None, None])


class _Residuals(NamedTuple):
    """√counts·e (d, n), columns U (n, m) with P = UUᵀ, and the variance (d,) of e.

    `free` is n less the rank of the other features, or None where the variance is known.
    """

    e: Array
    U: Array
    variance: Array
    free: float | None


def feature_statistics(fit: Fitted, precision: Array | None = None) -> tuple[Array, Array, Array]:
    """Debiased weights (d, c), their standard errors (d, c), and χ² of k − 1 degrees (d,).

    The contrasts c are each class against the mean of all; of two classes, the second against the
    first. NaN where a feature is determined by the others. `precision` (d, d) is that of the scaled
    features.
    """
    rows, (d, k), r = fit.rows, fit.W.shape, fit.basis.shape[1]
    if r * rows.shape[1] > _MOST:
        raise InvalidInput(
            f"{d} features in {r} contrasts of the classes are too many to test: at most {_MOST} "
            "weights; test a selection that was made on other samples"
        )
    fields = fit.X @ fit.W + fit.offset
    G, own = fit.slopes(fields), fit.W @ fit.basis
    pull = np.append(fit.pull, 0.0) if fit.intercept else fit.pull
    slope = (rows.T @ G)[:d] + fit.pull[:, None] * own
    if not (slope**2).sum() <= _STRAY**2 * (rows[:, :d] ** 2).T.dot(G**2).sum():
        raise InvalidInput(
            "X, y and sample_weight must be those that the classifier was fitted to: its weights "
            "do not minimise the loss of these"
        )
    parts = _known(fit, precision) if precision is not None else _regressed(rows, d, fit.counts)
    H = fit.curvatures(fields)
    try:
        factor = scipy.linalg.cholesky(whole_hessian(rows, H, pull), lower=True)
    except np.linalg.LinAlgError:
        raise InvalidInput(UNDETERMINED) from None
    K = scipy.linalg.cho_solve((factor, True), np.eye(len(factor)))
    contrasts = difference_basis(k)
    turn = contrasts.T @ fit.basis  # (k−1, r)
    back = turn @ np.linalg.inv(_own_response(H, rows, fit.counts, parts.U, factor, K))
    moved = own @ turn.T - (parts.e @ G / parts.variance[:, None]) @ back.T
    shown = contrasts[1:] - contrasts[:1] if k == 2 else contrasts  # e_c − 1/k of every class
    spread = (((G - parts.U @ (parts.U.T @ G)) @ back.T @ shown.T) ** 2).sum(0)
    statistic = np.full(d, np.nan)
    tested = np.flatnonzero(np.isfinite(parts.variance))
    for some in np.array_split(tested, -(-tested.size * G.size // _BLOCK) or 1):
        for j, slopes in zip(some, _without(fit, rows, pull, K, some), strict=True):
            statistic[j] = _chi_square(slopes @ turn.T, parts, int(j))
    return moved @ shown.T, np.sqrt(spread / parts.variance[:, None]), statistic


def feature_frame(
    fit: Fitted,
    precision: Array | None,
    names: NDArray[Any],
    labels: NDArray[Any],
    scale: Array,
    joint: Mapping[str, Labels] = MappingProxyType({}),
) -> pd.DataFrame:
    """Return a row for each feature, in units in which it is `scale` (d,) times as large.

    Parameters
    ----------
    fit : Fitted
    precision : (d, d), optional
        That of the scaled features.
    names : (d,)
        Of the features.
    labels : (c,)
        Of the contrasts of the classes.
    scale : (d,)
    joint : mapping of str to (m,)
        Names and indices of features that are tested jointly, in a row of their own.

    Returns
    -------
    DataFrame
        Columns weight_c and standard_error_c of each label c, degrees_of_freedom, reason,
        statistic, p_value, q_value. Joint tests are the last rows.
    """
    weights, errors, statistic = feature_statistics(fit, precision)
    columns: dict[str, Array] = {}
    for label, weight, error in zip(labels, weights.T, errors.T, strict=True):
        columns[f"weight_{label}"] = weight / scale
        columns[f"standard_error_{label}"] = error / scale
    n_contrasts = fit.W.shape[1] - 1
    table = pd.DataFrame(columns, index=pd.Index(names, name="feature"))
    table["degrees_of_freedom"] = np.where(np.isfinite(statistic), n_contrasts, 0)
    table["reason"] = reasons(fit.X, names, np.isfinite(statistic))
    table["statistic"] = statistic
    if joint:
        kept = np.setdiff1d(np.arange(names.size), np.concatenate(list(joint.values())))
        table = pd.concat([table.iloc[kept], _joint_rows(fit, joint)])
        table.index.name = "feature"
    degrees = table["degrees_of_freedom"].to_numpy(float)
    chance = np.asarray(scipy.stats.chi2.sf(table["statistic"].to_numpy(float), degrees))
    tested = np.isfinite(chance)
    rate = chance.copy()
    rate[tested] = scipy.stats.false_discovery_control(chance[tested])
    table["p_value"] = chance
    table["q_value"] = rate
    return table


def _joint_rows(fit: Fitted, joint: Mapping[str, Labels]) -> pd.DataFrame:
    """Return a row without weights for each joint test."""
    rows = {}
    for name, members in joint.items():
        statistic, degrees = joint_statistic(fit, members)
        reason = ""
        if degrees == 0:
            reason = DETERMINED
        rows[name] = (degrees, reason, statistic)
    columns = ["degrees_of_freedom", "reason", "statistic"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def joint_statistic(fit: Fitted, members: Labels) -> tuple[float, int]:
    """Return χ² of several features together, and its degrees of freedom m(k − 1).

    Let E (n, m) be what the other features do not explain of these, and G those slopes g⁻ of the
    fit without them that the other features do not explain. Under independence Wilks' Λ is

        Λ = det(1 − (GᵀG)⁻¹ GᵀE (EᵀE)⁻¹ EᵀG),    −(f − (m + r + 1)/2) ln Λ ~ χ² of m·r

    up to 1/f², f the number of samples less the rank of the other features (Bartlett). m is the
    rank of E: of a full one-hot code the number of levels less 1. For m = 1 it is the test of one
    feature.

    Parameters
    ----------
    fit : Fitted
    members : (m',)
        Indices of the features.
    """
    rows = fit.rows
    pull = fit.pull
    start = (fit.W @ fit.basis).T
    common = fit.offset
    if fit.intercept:
        pull = np.append(pull, 0.0)
        start = np.hstack([start, (fit.offset @ fit.basis)[:, None]])
        common = fit.offset - fit.basis @ (fit.basis.T @ fit.offset)
    slopes = _refitted(fit, rows, pull, start, members, common)
    others = np.delete(rows, members, axis=1)
    left, values, _ = np.linalg.svd(others, full_matrices=False)
    left = left[:, values > _FLAT * values[0]]
    free = float(fit.counts.sum()) - left.shape[1]
    tested = rows[:, members]
    unexplained = tested - left @ (left.T @ tested)
    directions, sizes, _ = np.linalg.svd(unexplained, full_matrices=False)
    directions = directions[:, sizes > _FLAT * np.linalg.norm(tested)]
    m = directions.shape[1]
    r = slopes.shape[1]
    if m == 0:
        return float("nan"), 0
    if free - (m + r + 1) / 2 <= SPARE / 2:
        raise InvalidInput(
            f"{fit.counts.sum():g} samples are too few to test {m} columns jointly, given "
            f"{others.shape[1]} others"
        )
    slopes = slopes - left @ (left.T @ slopes)
    orthonormal, _ = np.linalg.qr(slopes)
    correlations = np.linalg.svd(orthonormal.T @ directions, compute_uv=False)
    log_lambda = float(np.log1p(-(np.minimum(correlations, 1 - 1e-15) ** 2)).sum())
    return -(free - (m + r + 1) / 2) * log_lambda, m * r


def _chi_square(g: Array, parts: _Residuals, j: int) -> float:
    """Return χ² of feature j, given the slopes g (n, k−1) of the fit without it."""
    e = parts.e[j]
    seen, along = parts.U.T @ g, parts.U.T @ e
    other = seen - np.outer(along, along @ seen) / max(float(along @ along), 1e-300)
    pushed = e @ g
    share = float(pushed @ np.linalg.lstsq(g.T @ g - other.T @ other, pushed)[0])
    if parts.free is None:
        return share / float(parts.variance[j])
    return float(-(parts.free - g.shape[1] / 2 - 1) * np.log(max(1 - share / (e @ e), 1e-300)))


def _without(fit: Fitted, rows: Array, pull: Array, K: Array, chosen: Labels) -> Array:
    """√counts·g⁻ (m, n, r) of the fits without each of the chosen features (m,)."""
    r, size = fit.basis.shape[1], rows.shape[1]
    root = np.sqrt(fit.counts)[:, None]
    inverse = K.reshape(r, size, r, size)
    aside = inverse[:, :, :, chosen]  # (r, size, r, m)
    kappa = np.linalg.inv(np.moveaxis(inverse[:, chosen][:, :, :, chosen].diagonal(0, 1, 3), -1, 0))

    def leave(step: Array) -> Array:
        """A step (m, r, size) of all features as one of those without each."""
        out = np.einsum("mab,mb->ma", kappa, step[np.arange(len(chosen)), :, chosen])
        return np.asarray(step - np.einsum("asbm,mb->mas", aside, out))

    start = (fit.W @ fit.basis).T
    if fit.intercept:
        start = np.hstack([start, (fit.offset @ fit.basis)[:, None]])
    common = fit.offset - fit.basis @ (fit.basis.T @ fit.offset) if fit.intercept else fit.offset
    v = leave(np.repeat(start[None], len(chosen), 0))
    for _ in range(_STEPS[0]):
        z = (v.reshape(-1, size) @ rows.T).reshape(len(v), r, -1).swapaxes(1, 2) / root
        g = fit.slopes(z @ fit.basis.T + common)
        slope = (g.swapaxes(1, 2).reshape(-1, len(rows)) @ rows).reshape(v.shape) + pull * v
        slope[np.arange(len(chosen)), :, chosen] = 0.0
        step = leave((slope.reshape(len(chosen), -1) @ K).reshape(slope.shape))
        far = np.flatnonzero(np.einsum("mas,mas->m", slope, step) > _ENOUGH)
        if far.size == 0:
            break
        v[far] -= step[far]
    for i in far:
        g[i] = _refitted(fit, rows, pull, start, int(chosen[i]), common)
    return g


def _refitted(
    fit: Fitted, rows: Array, pull: Array, v: Array, left_out: int | Labels, common: Array
) -> Array:
    """Return √counts·g⁻ (n, r) without some features, by Newton steps down from v (r, size)."""
    rows = np.delete(rows, left_out, axis=1)
    pull = np.delete(pull, left_out)
    v = np.delete(v, left_out, axis=1)
    weights = fit.counts * fit.factors

    def at(v: Array) -> tuple[Array, float]:
        """Return the fields (n, k) at the step `v` and the objective there."""
        fields = rows @ v.T / np.sqrt(fit.counts)[:, None] @ fit.basis.T + common
        return fields, float(weights @ fit.loss.value(fields, fit.y) + (pull * v**2).sum() / 2)

    v = min(v, 0 * v, key=lambda v: at(v)[1])  # far from a minimum large weights hardly move
    fields, total = at(v)
    for _ in range(_STEPS[1]):
        g, H = fit.slopes(fields), fit.curvatures(fields)
        slope = g.T @ rows + pull * v
        step = np.linalg.solve(whole_hessian(rows, H, pull), slope.ravel()).reshape(v.shape)
        if (gain := float((slope * step).sum())) <= _ENOUGH:
            break
        while (there := at(v - step))[1] > total - 0.1 * gain:
            step, gain = step / 2, gain / 2
        v, (fields, total) = v - step, there
    else:
        raise InvalidInput(UNDETERMINED)
    return g


def _own_response(H: Array, rows: Array, counts: Array, U: Array, factor: Array, K: Array) -> Array:
    """A (r, r); a count is so many samples."""
    r, size = H.shape[1], rows.shape[1]
    A = np.einsum("n,nab->ab", counts - np.einsum("ij,ij->i", U, U), H)
    A -= (H @ leverages(rows, K.reshape(r, size, r, size)) @ H).sum(0)
    for part in np.array_split(U, -(-U.shape[1] * r * r * size // _BLOCK) or 1, axis=1):
        S = np.empty((r, size, part.shape[1], r))
        for a, b in np.ndindex(r, r):
            S[a, :, :, b] = rows.T @ (part * H[:, a, b, None])
        half = scipy.linalg.solve_triangular(factor, S.reshape(r * size, -1), lower=True)
        half = half.reshape(-1, r)
        A += half.T @ half
    return np.asarray(A)


def _regressed(rows: Array, d: int, counts: Array) -> _Residuals:
    """Return the residuals of the regressions of each feature on the others."""
    left, values, right = np.linalg.svd(rows, full_matrices=False)
    kept = values > _FLAT * values[0]
    n, rank = float(counts.sum()), int(kept.sum())
    if n - rank <= SPARE:
        raise InvalidInput(
            f"{n:g} samples are too few to test {d} features: more than {d + SPARE} are needed, or "
            "the `precision` matrix of the features"
        )
    inverse = (right[kept].T / values[kept])[:d] @ left[:, kept].T  # its rows are e/‖e‖²
    squares = 1 / np.maximum((inverse**2).sum(1), 1e-300)
    bound = np.abs(right[~kept][:, :d]).max(0, initial=0.0) > 1e-6
    variance = np.where(bound, np.nan, squares / (n - rank + 1))
    return _Residuals(inverse * squares[:, None], left[:, kept], variance, n - rank + 1)


def _known(fit: Fitted, precision: Array) -> _Residuals:
    """Return what the others do not explain of each feature, by its precision matrix."""
    n, root = float(fit.counts.sum()), np.sqrt(fit.counts)[:, None]
    centred = fit.X - (fit.counts @ fit.X) / n if fit.intercept else fit.X
    omega = np.diag(precision)
    U = root / np.sqrt(n) if fit.intercept else np.zeros((len(root), 0))
    return _Residuals((root * (centred @ (precision / omega))).T, U, 1 / omega, None)
