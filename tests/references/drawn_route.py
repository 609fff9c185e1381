"""Fits of unequal classes by draws: the equations with nothing of the package but the loss itself.

    ω ~ N(m_c, Q_c),  u = argmin (u − ω − b)ᵀV_c⁻¹(u − ω − b)/2 + w c_y ℓ(Tu, y)
    f = V_c⁻¹(u − ω − b)
    m̂_c = α p_c E f,   Q̂_c = α p_c E ffᵀ,   V̂_c = α p_c E(−∂f),   Σ_c p_c E f = 0 if there is a b
    a teacher's fields z ~ N(b*, R), ω = A(z − b*) + rest:   M̂ = α E f (z − b*)ᵀR⁻¹ + V̂A
    S = (λI + Σ_c V̂_c ⊗ Σ_c)⁻¹ on class differences and features, whatever the covariances are

Samples may have random weights w, and a second student other weights on the same samples: their
fields have a covariance Q₁₂ in common, with Q̂₁₂ = α p_c E f₁f₂ᵀ.

Every average is over scrambled points of (fields, label, weights); replicates have roots of their
own, and their spread is what the answer is worth. Smooth losses only: a proximal point is found by
Newton's method on the loss's gradient and Hessian, halved where the energy rises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import poisson, qmc
from scipy.stats import t as student

from polyceptron.problem.losses import as_loss

REPLICATES = 6
# In 29 dimensions scrambled Sobol points gave errors of six classes in two clumps, .02 apart, and
# replicates of one clump a bar that was four times too short.
MOST_SOBOL_DIMENSIONS = 20
MAX_ROUNDS = 200


def contrasts(k: int) -> Any:
    """Orthonormal contrasts (k, r) other than those of the package."""
    return np.linalg.qr(np.eye(k)[:, 1:] - 1 / k)[0]


def teacher_covariance(gram: Any, T: Any) -> Any:
    """R (r, r), for independent fields where no covariance is given."""
    if gram is None:
        return np.eye(T.shape[1])
    return T.T @ np.asarray(gram) @ T


@dataclass
class Features:
    """How weights see the groups: directions with means and covariances.

    Levels are directions that weigh `fraction` (L,), with variances s (L, G), means' Gram matrices
    (L, G, G) and a teacher's variance θ (L,). Full covariances have μ (k, d) and Σ (k, d, d).
    """

    fraction: Any = None
    s: Any = None
    gram: Any = None
    theta: Any = None
    mu: Any = None
    sigma: Any = None

    def after(self, hats: Any, ridge: float, R: Any) -> Any:
        """m (G, r), Q, V (G, r, r) and A (r, r) after hats (m̂, Q̂, V̂, M̂)."""
        m, Q, V, M = hats
        r = m.shape[1]
        if self.mu is not None:
            return self._full(m, Q, V, ridge)
        new_m, new_Q, new_V, A = np.zeros_like(m), np.zeros_like(Q), np.zeros_like(V), 0 * M
        for f, s, G, theta in zip(self.fraction, self.s, self.gram, self.theta, strict=True):
            S = np.linalg.inv(ridge * np.eye(r) + np.tensordot(s, V, 1))
            inner = f * np.tensordot(s, Q, 1) + m.T @ G @ m + f * s[0] ** 2 * theta * M @ R @ M.T
            new_m += G @ m @ S
            new_Q += s[:, None, None] * (S @ inner @ S)
            new_V += f * s[:, None, None] * S
            A += f * s[0] ** 2 * theta * S @ M
        return new_m, new_Q, new_V, A

    def _full(self, m: Any, Q: Any, V: Any, ridge: float) -> Any:
        """The same with one inverse on class differences and features."""
        k, d = self.mu.shape
        r = m.shape[1]
        S = np.linalg.inv(
            ridge * np.eye(r * d) + sum(np.kron(V[c], self.sigma[c]) for c in range(k))
        ).reshape(r, d, r, d)
        pulled = sum(np.multiply.outer(m[c], self.mu[c]) for c in range(k))  # (r, d)
        w = np.einsum("iajb,jb->ia", S, pulled)  # mean weights
        noise = sum(np.multiply.outer(Q[c], self.sigma[c]) for c in range(k))  # (r, r, d, d)
        covariance = np.einsum("iajb,jlbc,lcne->iane", S, noise, S, optimize=True)
        covariance = covariance + np.multiply.outer(w, w)
        new_Q = np.stack(
            [np.einsum("iane,ea->in", covariance, self.sigma[c]) / d for c in range(k)]
        )
        new_V = np.stack([np.einsum("iajb,ba->ij", S, self.sigma[c]) / d for c in range(k)])
        return self.mu @ w.T / d, new_Q, new_V, np.zeros((r, r))


@dataclass
class Problem:
    """What is to be solved, as plain numbers; `weights` is a scheme of resampling, or None."""

    k: int
    loss: str
    ridge: float
    alpha: float
    intercept: bool
    features: Features
    shares: Any = None
    class_weight: Any = None
    biases: Any = None
    R: Any = None
    noise: tuple[str, float] = ("none", 0.0)
    weights: str | None = None
    T: Any = field(init=False)

    def __post_init__(self) -> None:
        self.T = contrasts(self.k)
        self.taught = self.shares is None
        self.c = np.ones(self.k) if self.class_weight is None else np.asarray(self.class_weight)
        if self.taught:
            self.b_star = self.T.T @ np.asarray(self.biases)
            self.R = teacher_covariance(self.R, self.T)
        else:
            self.R = np.zeros((self.k - 1, self.k - 1))

    def labels(self, z: Any, u: Any) -> Any:
        """Labels of a teacher's fields z (n, r), from uniforms u (n, k + 1)."""
        kind, strength = self.noise
        fields = z @ self.T.T
        if kind == "gaussian":
            fields = fields + math.sqrt(strength) * ndtri(u[:, : self.k])
        if kind == "softmax":
            fields = fields - np.log(-np.log(u[:, : self.k])) / strength
        y = fields.argmax(1)
        if kind == "flips":
            other = (y + 1 + (u[:, 0] * (self.k - 1)).astype(int)) % self.k
            y = np.where(u[:, self.k] < strength, other, y)
        return y


def sample_weights(scheme: str | None, u: Any) -> Any:
    """Weights (n, 2) of two students' samples, from uniforms u (n, 2)."""
    if scheme is None:
        return np.ones_like(u)
    name, _, number = scheme.partition(":")
    share = float(number or 1)
    if name == "bootstrap":
        return poisson.ppf(u, share)
    if name == "subsample":
        return (u < share).astype(float)
    fold = np.floor(u[:, 0] * share)  # the sample's own; student 1 leaves out fold 0, 2 fold 1
    return np.stack([fold != 0, fold != 1], 1).astype(float)


def uniform_points(size: int, log2: int, rng: np.random.Generator) -> Any:
    """Points (n, size): Sobol's in the first coordinates, the fields; others even one by one."""
    first = min(size, MOST_SOBOL_DIMENSIONS)
    points = [qmc.Sobol(first, rng=rng).random_base2(log2)]
    if size > first:
        points.append(qmc.LatinHypercube(size - first, rng=rng).random(1 << log2))
    return np.hstack(points)


class Draws:
    """Points of one replicate: groups, labels, coordinates of both students' fields, weights."""

    def __init__(self, problem: Problem, log2: int, seed: int) -> None:
        p, k, r = problem, problem.k, problem.k - 1
        rng = np.random.default_rng(seed)
        size = 4 * r + k + 3
        self.groups = []
        for c in range(1 if p.taught else k):
            u = np.clip(uniform_points(size, log2, rng), 1e-12, 1 - 1e-12)
            x = ndtri(u[:, : 4 * r]).reshape(-1, 4, r)
            z = x[:, 0] @ np.linalg.cholesky(p.R).T + p.b_star if p.taught else None
            y = p.labels(z, u[:, 4 * r : 4 * r + k + 1]) if p.taught else np.full(len(u), c)
            w = sample_weights(p.weights, u[:, -2:])
            z0 = None if z is None else z - p.b_star
            self.groups.append((c, y, z0, x[:, 1], x[:, 2:], w))
        self.near: dict[tuple[int, int], Any] = {}


def sym_root(matrix: Any) -> Any:
    """The symmetric root of a positive matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def trained(problem: Problem, o: Any, y: Any, V: Any, weight: Any, near: Any) -> tuple[Any, Any]:
    """u and f (n, r) at o = ω + b, by Newton's method."""
    loss, T = as_loss(problem.loss), problem.T
    P = np.linalg.inv(V)
    u = o.copy() if near is None else near.copy()

    def energy(u: Any, rows: Any) -> Any:
        away = u - o[rows]
        return 0.5 * ((away @ P) * away).sum(1) + weight[rows] * loss.value(u @ T.T, y[rows])

    rows = np.flatnonzero(weight > 0)
    u[weight == 0] = o[weight == 0]
    for _ in range(200):
        here, c = u[rows], weight[rows]
        slope = (here - o[rows]) @ P + c[:, None] * (loss.gradient(here @ T.T, y[rows]) @ T)
        H = c[:, None, None] * (T.T @ loss.hessian(here @ T.T, y[rows]) @ T)
        step = np.linalg.solve(P + H, slope[:, :, None])[:, :, 0]
        before, scale = energy(here, rows), np.ones(len(rows))
        for _ in range(40):
            trial = here - scale[:, None] * step
            poor = ~(energy(trial, rows) <= before + 1e-11 * (1 + np.abs(before)))
            if not poor.any():
                break
            scale[poor] /= 2
        u[rows] = trial
        rows = rows[np.abs(step).max(1) > 1e-9 * (1 + np.abs(here).max(1))]
        if not len(rows):
            break
    return u, (u - o) @ P


@dataclass
class Law:
    """m (G, r), Q (all of it), V, Q₁₂ (G, r, r), A (r, r) and b (r,)."""

    m: Any
    Q: Any
    V: Any
    Q12: Any
    A: Any
    b: Any

    def flat(self) -> Any:
        return np.concatenate([np.ravel(x) for x in vars(self).values()])

    def like(self, vector: Any) -> Law:
        out, at = [], 0
        for x in vars(self).values():
            out.append(vector[at : at + x.size].reshape(x.shape))
            at += x.size
        return Law(*out)


def fields_of(problem: Problem, law: Law, group: Any) -> Any:
    """ω₁, ω₂ (n, r) of a group's draws."""
    c, _, z0, shared, own, _ = group
    known = law.A @ problem.R @ law.A.T if problem.taught else 0.0
    common = sym_root(law.Q12[c] - known)
    rest = sym_root(law.Q[c] - law.Q12[c])
    base = law.m[c] + shared @ common
    if z0 is not None:
        base = base + z0 @ law.A.T
    return [base + own[:, i] @ rest for i in (0, 1)]


def one_round(problem: Problem, law: Law, draws: Draws) -> Law:
    """The law after the samples' pull and the weights side."""
    p, r = problem, problem.k - 1
    loss = as_loss(p.loss)
    G = len(law.m)
    m, Q, V, Q12 = (np.zeros((G, r, r)) for _ in range(4))
    m = m[:, 0]
    M = np.zeros((r, r))
    shares = np.ones(1) if p.taught else np.asarray(p.shares)
    for group in draws.groups:
        c, y, z0, _, _, w = group
        omega = fields_of(p, law, group)
        f = []
        which = (0, 1) if p.weights else (0,)  # without weights both students are the same
        for i in which:
            cost = p.c[y] * w[:, i]
            u, pull = trained(p, omega[i] + law.b, y, law.V[c], cost, draws.near.get((c, i)))
            draws.near[c, i] = u
            f.append(pull)
            H = cost[:, None, None] * (p.T.T @ loss.hessian(u @ p.T.T, y) @ p.T)
            V[c] += np.linalg.solve(np.eye(r) + H @ law.V[c], H).mean(0) / len(which)
            m[c] += pull.mean(0) / len(which)
            Q[c] += pull.T @ pull / len(y) / len(which)
        both = f[0].T @ f[-1] / len(y)
        Q12[c] += (both + both.T) / 2
        if z0 is not None:
            # E f z₀ᵀ = E(∂f) A R + M̂R/α, by parts.
            mean_f = (f[0] + f[-1]) / 2
            slope = np.linalg.solve(p.R, (mean_f.T @ z0 / len(y) + V[c] @ law.A @ p.R).T).T
            M += p.alpha * slope
    V = (V + V.swapaxes(1, 2)) / 2
    scale = p.alpha * shares[:, None, None]
    hats = scale[:, 0] * m, scale * Q, scale * V, M
    b = law.b
    if p.intercept:
        b = b + np.clip(np.linalg.solve(hats[2].sum(0), hats[0].sum(0)), -1, 1)
    new_m, new_Q, new_V, A = p.features.after(hats, p.ridge, p.R)
    new_Q12 = p.features.after((hats[0], scale * Q12, hats[2], M), p.ridge, p.R)[1]
    return Law(new_m, new_Q, new_V, new_Q12, A, b)


def solved(problem: Problem, law: Law, draws: Draws, tol: float) -> Law:
    """The law that a round returns, by combinations of the last rounds."""
    x, xs, fs, best = law.flat(), [], [], math.inf
    for number in range(MAX_ROUNDS):
        here = law.like(x)
        step = one_round(problem, here, draws).flat() - x
        size = float(np.abs(step / (np.abs(x) + 0.1 * np.abs(x).max())).max())
        if size < tol:
            return here
        if size > 3 * best:  # a combination led away: plain rounds from where it began
            xs, fs = [], []
        best = min(best, size)
        xs, fs = [*xs[-6:], x], [*fs[-6:], step]
        move = 0.7 * step
        if number > 8 and len(xs) > 2 and number % 12:
            dx, df = np.diff(xs, axis=0).T, np.diff(fs, axis=0).T
            gamma = np.linalg.lstsq(df, step, rcond=1e-6)[0]
            combined = 0.7 * step - (dx + 0.7 * df) @ gamma
            trial = law.like(x + combined)
            least = min(float(np.linalg.eigvalsh(y).min()) for y in (trial.Q, trial.V))
            if least > 0 and np.abs(combined).max() < 0.5 * np.abs(x).max():
                move = combined
        x = x + move
    raise ArithmeticError("no root")


def numbers(problem: Problem, law: Law, draws: Draws, fits: tuple[float, ...]) -> dict[str, float]:
    """Scores of fresh and training samples, and what two students have in common."""
    p = problem
    loss = as_loss(p.loss)
    shares = np.ones(1) if p.taught else np.asarray(p.shares)
    out: dict[str, float] = {}

    def add(name: str, value: float) -> None:
        out[name] = out.get(name, 0.0) + value

    for group in draws.groups:
        c, y, _, _, _, w = group
        share = shares[c]
        one, two = (omega + law.b for omega in fields_of(p, law, group))
        add("generalisation_error", share * float(((one @ p.T.T).argmax(1) != y).mean()))
        add("agreement", share * float(((one @ p.T.T).argmax(1) == (two @ p.T.T).argmax(1)).mean()))
        if math.inf in fits:  # the mean of all students has the fields that two share
            limit = replaced(p, law, group) + law.b
            add("error:inf", share * float(((limit @ p.T.T).argmax(1) != y).mean()))
        add("error:2", share * float((((one + two) @ p.T.T).argmax(1) != y).mean()))
        own = p.c[y] * w[:, 0]
        u, _ = trained(p, one, y, law.V[c], own, None)
        add("training_error", share * float(((u @ p.T.T).argmax(1) != y).mean()))
        add("training_loss", share * float(loss.value(u @ p.T.T, y).mean()))
        if p.loss == "cross-entropy":
            log_p = (one @ p.T.T) - np.logaddexp.reduce(one @ p.T.T, axis=1)[:, None]
            q = np.exp(log_p)
            hit = np.arange(len(y)), y
            add("test_loss", -share * float(log_p[hit].mean()))
            add("brier", share * float(((q * q).sum(1) - 2 * q[hit] + 1).mean()))
    if p.loss == "square":  # its part along (1, …, 1) vanishes with an intercept, else is not here
        mean_loss = out.pop("training_loss")
        if p.intercept:
            out["training_loss"] = mean_loss - 0.5 / p.k
    r = p.k - 1
    spread = np.trace(law.Q - law.Q12, axis1=1, axis2=2) / r
    out["variance over resamples"] = float(shares @ spread)
    return out


def replaced(problem: Problem, law: Law, group: Any) -> Any:
    """The fields (n, r) of the mean of all students."""
    c, _, z0, shared, _, _ = group
    known = law.A @ problem.R @ law.A.T if problem.taught else 0.0
    base = law.m[c] + shared @ sym_root(law.Q12[c] - known)
    return base if z0 is None else base + z0 @ law.A.T


def start(problem: Problem) -> Law:
    """Small fields, and V of a weak pull."""
    p, k, r = problem, problem.k, problem.k - 1
    G = 1 if p.taught else k
    eye = np.repeat(np.eye(r)[None], G, 0)
    m = np.zeros((1, r)) if p.taught else 0.3 * p.T
    shares = np.full(k, 1 / k) if p.taught else np.asarray(p.shares)
    b = p.T.T @ np.log(p.c * shares) if p.intercept else np.zeros(r)
    A = 0.3 * np.eye(r) * p.taught
    Q = eye + A @ p.R @ A.T
    return Law(m, Q, eye / (p.ridge + 0.25 * p.alpha), 0.5 * eye + A @ p.R @ A.T, A, b)


def drawn_answer(
    problem: Problem, seed: int, log2: int = 12, fits: tuple[float, ...] = ()
) -> dict[str, tuple[float, float]]:
    """Values and what they are worth (99 of 100), by name."""
    law = solved(problem, start(problem), Draws(problem, log2 - 2, seed), 1e-3)
    found = []
    for i in range(REPLICATES):
        own = solved(problem, law, Draws(problem, log2, seed + 1 + i), 2e-5)
        # Scores on draws of their own: those of the root are not fresh.
        found.append(numbers(problem, own, Draws(problem, log2 + 2, seed + 101 + i), fits))
    t = float(student.ppf(0.995, REPLICATES - 1)) / math.sqrt(REPLICATES)
    answer = {}
    for name in found[0]:
        values = np.array([one[name] for one in found])
        answer[name] = float(values.mean()), float(t * values.std(ddof=1) + 1e-6)
    return answer
