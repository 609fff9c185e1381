"""Convex losses of the class fields z = Wᵀx/√d, their proximal maps, and the square loss.

    prox_{Vℓ(·,y)}(ω) = argmin_z  ‖z − ω‖²/(2V) + ℓ(z, y)                       (eq. auxiliary_defs)
    f_y(ω)            = (prox − ω)/V = −∇ℓ(prox),    −∂f = (V + H⁻¹)⁻¹,  H = ∇²ℓ(prox)

Message passing sees a loss only through `denoise`, that is f and −tr_⊥ ∂f, the trace on the space
1⊥ of class differences (the labels show nothing else); the theory integrates over it in its
`coordinates`. A new loss has `name`, `value`, `gradient` and `hessian`, and `denoise` where there
is a closed form; it is tried before it is used, and more so by the theory (`check_symmetric`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyceptron.checks import difference_basis
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.special import boundary_density, mean_of_maximum
from polyceptron.problem.losses.coordinates import AdditivePull, Coordinates
from polyceptron.problem.order import Decay, ScalarOrder
from polyceptron.problem.registry import Registry

Labels = NDArray[np.int64]


class Loss(ABC):
    """ℓ(z, y), convex in z; z is (n, k), y is (n,) with entries 0..k−1, V a number or (n,).

    >>> from polyceptron.problem import CrossEntropy
    >>> z = CrossEntropy().prox([[0.0, 0.0]], [1], 2.0)  # pulled towards the label
    >>> bool(z[0, 1] > 0 > z[0, 0])
    True
    """

    name: str

    # Short cuts and limits. A class that changes what the loss *is* does not inherit them.
    scale_free: ClassVar[bool] = False  # f ∝ 1/V: V drops out of the equations, and any ridge
    margin_floor: ClassVar[float | None] = None  # to which hard constraints lift smaller margins
    margin_atom: ClassVar[float | None] = None  # margin of a positive share of training samples
    pooled: ClassVar[bool] = False  # whether the pulls of a sample have a bound together
    solver: ClassVar[str] = "newton"  # of `algorithms.erm`
    passes: ClassVar[int] = 400  # of it over the data, roughly
    rough: ClassVar[dict[str, Any]] = {}  # what `denoise` is told where about f will do
    relaxed: Any = None  # ∇ℓ, y, v (n, k), right → (I + diag(v)∇²ℓ)⁻¹right, where that is explicit

    @property
    def coordinates(self) -> Coordinates:
        """In which the theory of two and three classes integrates over it."""
        return Coordinates(self)

    def additive(self, V: float) -> AdditivePull | None:
        """Its pull as sums over the other classes: four and more then need no random points."""
        return None

    def explicit_averages(
        self, law: ScalarOrder, signal: float, n_classes: int
    ) -> tuple[float, float, float, float] | None:
        """M, Q, C and D of the fields side, at the channel's signal c = E[e_y·z]/(k − 1)."""
        return None

    def without_ridge(self) -> Loss | None:
        """What λ → 0⁺ means on separable data: a loss, or None where it is not defined."""
        return None

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """ε ≈ C α^(−p) without noise, where p is known."""
        return None

    def probabilities(self, z: Any) -> Array | None:
        """Class probabilities (n, k) that fields z (n, k) stand for, if the loss models them."""
        return None

    def value_at_prox(self, z: Any, y: Any) -> Array:
        """ℓ on training samples, whose fields are proximal points, shape (n,)."""
        return self.value(z, y)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Drop inherited short cuts where value, gradient or Hessian are given anew."""
        super().__init_subclass__(**keywords)
        own = vars(cls)
        if own.keys() & {"value", "gradient", "hessian"}:
            for name in SHORT_CUTS - own.keys():
                setattr(cls, name, getattr(Loss, name))
            if "name" not in own and hasattr(cls, "name"):
                cls.name = cls.__name__.lower()

    @abstractmethod
    def value(self, z: Any, y: Any) -> Array:
        """ℓ(z, y), shape (n,)."""

    @abstractmethod
    def gradient(self, z: Any, y: Any) -> Array:
        """∇_z ℓ, shape (n, k)."""

    @abstractmethod
    def hessian(self, z: Any, y: Any) -> Array:
        """∇²_z ℓ, shape (n, k, k), positive semi-definite."""

    def prox(self, omega: Any, y: Any, V: Any) -> Array:
        """argmin_z ‖z − ω‖²/(2V) + ℓ(z, y) = ω + Vf, shape (n, k)."""
        omega, y, V = broadcast(omega, y, V)
        if type(self).denoise is Loss.denoise:
            return _newton_prox(self, omega, y, V)
        return np.asarray(omega + V[:, None] * self.denoise(omega, y, V)[0])

    def denoise(self, omega: Any, y: Any, V: Any) -> tuple[Array, Array]:
        """f = (prox − ω)/V, shape (n, k), and −tr_⊥ ∂f, shape (n,)."""
        omega, y, V = broadcast(omega, y, V)
        own = type(self).prox is not Loss.prox
        z = self.prox(omega, y, V) if own else _newton_prox(self, omega, y, V)
        k, H = z.shape[1], self.hessian(z, y)
        inner = np.linalg.solve(np.eye(k) + V[:, None, None] * H, H)  # H(I + VH)⁻¹
        trace = np.trace(inner, axis1=1, axis2=2) - inner.sum((1, 2)) / k
        return -self.gradient(z, y), np.asarray(trace)


def _newton_prox(loss: Loss, omega: Array, y: Labels, V: Array) -> Array:
    """The proximal point of a smooth loss; steps are halved until they lower the energy."""
    inverse, eye = 1 / V, np.eye(omega.shape[1])
    z, energy = omega, loss.value(omega, y)
    for _ in range(100):
        slope = (z - omega) * inverse[:, None] + loss.gradient(z, y)
        bend = loss.hessian(z, y) + inverse[:, None, None] * eye
        step = np.linalg.solve(bend, slope[:, :, None])[:, :, 0]
        decrease = np.einsum("ni,ni->n", slope, step)
        scale = np.ones(len(z))
        for _ in range(60):
            trial = z - scale[:, None] * step
            lower = loss.value(trial, y) + ((trial - omega) ** 2).sum(1) * inverse / 2
            poor = ~(lower <= energy - 1e-4 * scale * decrease + 1e-13 * (1 + np.abs(energy)))
            if not poor.any():
                break
            scale = np.where(poor, scale / 2, scale)
        z, energy = trial, lower
        if np.max(np.abs(step), initial=0.0) <= 1e-11 * (1 + np.max(np.abs(z), initial=0.0)):
            break
    return np.asarray(z)


SHORT_CUTS = {"prox", "denoise", "value_at_prox", "probabilities", "solver", "coordinates"}
SHORT_CUTS |= {"additive", "explicit_averages", "scale_free", "margin_floor", "margin_atom"}
SHORT_CUTS |= {"without_ridge", "decay", "pooled", "rough", "relaxed", "passes"}

LOSSES: Registry[Loss] = Registry("loss", Loss)  # type: ignore[type-abstract]


def one_hot(y: Labels, n_classes: int) -> Array:
    """e_y, shape (n, k)."""
    return np.asarray(np.arange(n_classes) == y[:, None], dtype=float)


def broadcast(omega: Any, y: Any, V: Any) -> tuple[Array, Labels, Array]:
    """ω as (n, k) floats, y as (n,) integers, V as (n,) floats."""
    omega, y, V = np.asarray(omega, float), np.asarray(y, np.int64), np.asarray(V, float)
    shape = omega.shape[:1]
    y = y if y.shape == shape else np.broadcast_to(y, shape)
    return omega, y, V if V.shape == shape else np.broadcast_to(V, shape)


def pair_decay(
    ridge: float | str, n_classes: int, total: float, squares: float, pull: float
) -> Decay:
    """ε ≈ C α^(−p) of a loss that vanishes, or decays, with the margin: p = 1, 2/3 at a fixed λ.

    Without noise a student of many data is nearly aligned and trains without moving (V → 0). The
    margin of two classes has the density 1/√(πq) at 0, so that with A = ∫₀^∞ ℓ the mean loss is
    A/√(πq); with the ridge λq/2 that puts the norm at √q = κ(α/λ)^(1/3), κ³ = A/√π. There
    M → 2f/√π with f the label's pull at margin 0, and Q → 2B/√(πq) with B = ∫₀^∞ f², so that
    1/τ² = Q/(αM²). More classes meet in pairs: C_k = B_k^(1/3) (k − 1)^(2/3) C₂.

    Without a ridge such losses tend to max-margin, and the best one is not worse: p = 1.
    """
    if ridge in (0, "optimal"):
        return Decay(1.0)
    kappa = (total / math.sqrt(math.pi)) ** (1 / 3)
    spread = squares * math.sqrt(math.pi) / (2 * pull**2 * kappa)
    pairs = boundary_density(n_classes) * (n_classes - 1) ** 2
    return Decay(2 / 3, (pairs * math.sqrt(float(ridge))) ** (1 / 3) / math.pi * math.sqrt(spread))


class _SquareCoordinates(Coordinates):
    def mistake_gap(self, V: float) -> float | None:
        """−V: training moves a margin g to (g + V)/(1 + V)."""
        return -V

    def fresh_margin(self, margin: Array, V: float) -> tuple[Array, float] | None:
        return np.asarray(margin * (1 + V) - V), 1 + V


class SquareLoss(Loss):
    """ℓ(z, y) = ‖z − e_y‖²/2, with e_y the one-hot label, in all k coordinates."""

    name = "square"
    solver = "least-squares"

    def value(self, z: Any, y: Any) -> Array:
        return np.asarray((self.gradient(z, y) ** 2).sum(1) / 2)

    def gradient(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        return np.asarray(z - one_hot(y, z.shape[1]))

    def hessian(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        return np.broadcast_to(np.eye(z.shape[1]), (*z.shape, z.shape[1]))

    def denoise(self, omega: Any, y: Any, V: Any) -> tuple[Array, Array]:
        omega, y, V = broadcast(omega, y, V)
        f = (one_hot(y, omega.shape[1]) - omega) / (1 + V[:, None])
        return f, (omega.shape[1] - 1) / (1 + V)

    def without_ridge(self) -> Loss | None:
        return self  # the interpolation of least norm, or least squares

    @property
    def coordinates(self) -> Coordinates:
        return _SquareCoordinates(self)

    def explicit_averages(
        self, law: ScalarOrder, signal: float, n_classes: int
    ) -> tuple[float, float, float, float] | None:
        """With f = (e_y − ω)/(1 + V) on 1⊥, E‖e_y‖² = (k−1)/k and E e_y·ω = (k−1) m c there:

        M = c/(1+V),   Q = (1/k − 2mc + q)/(1+V)²,   C = 1/(1+V),   D = (mc/q − 1)/(1+V)
        """
        shrink = 1 / (1 + law.V)
        pull = signal * law.m
        Q = (1 / n_classes - 2 * pull + law.q) * shrink**2
        return signal * shrink, Q, shrink, (pull / law.q - 1) * shrink

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """p = 1/2 and C = B_k σ/(πc) at any ridge.

        τ² → αc²/σ² with σ² = 1/k − c², c = E[max of k normals]/(k − 1).
        """
        c = mean_of_maximum(n_classes) / (n_classes - 1)
        spread = math.sqrt(1 / n_classes - c**2)
        return Decay(0.5, boundary_density(n_classes) * spread / (math.pi * c))


_STEP = 1e-5
_CLOSE = 1e-5  # relative agreement of a derivative with central differences


def as_loss(loss: Any) -> Loss:
    """The loss meant by a name ('cross-entropy' or 'cross_entropy', ...) or a `Loss`, checked.

    >>> as_loss("max_margin").name
    'max-margin'
    """
    found = LOSSES.read(loss)
    if not any(type(found) is entry.make for entry in LOSSES.entries):
        check_loss(found)
    return found


def check_loss(loss: Loss, n_classes: int = 3) -> None:
    """Shapes, gradient against value, Hessian against gradient, convexity, at a few points."""
    name = getattr(loss, "name", None)
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"a loss needs a name: {type(loss).__name__} has none")
    if any(entry.name == name and type(loss) is not entry.make for entry in LOSSES.entries):
        raise InvalidInput(f"the name {name!r} belongs to another loss: give yours its own")
    z, y = _points(n_classes)
    n, k = z.shape
    found = []
    for method, shape in (("value", (n,)), ("gradient", (n, k)), ("hessian", (n, k, k))):
        try:
            found.append(np.asarray(getattr(loss, method)(z, y), dtype=float))
        except Exception as error:
            raise InvalidInput(
                f"the {method} of the loss {name!r} fails at fields of shape {z.shape}: {error}"
            ) from None
        if found[-1].shape != shape:
            raise InvalidInput(
                f"the {method} of the loss {name!r} must have shape {shape} for fields of shape "
                f"{z.shape}, got {found[-1].shape}"
            )
    value, gradient, hessian = found
    if not np.isfinite(value).all():
        return  # hard constraints have no derivatives to compare
    for what, given, of in (("gradient", gradient, "value"), ("hessian", hessian, "gradient")):
        function = getattr(loss, of)
        differences = [function(z + s, y) - function(z - s, y) for s in _STEP * np.eye(k)]
        measured = np.stack(differences, -1) / (2 * _STEP)
        off = float(np.abs(given - measured).max())
        if not off <= _CLOSE * (1 + float(np.abs(measured).max())):
            raise InvalidInput(
                f"the {what} of the loss {name!r} is not the derivative of its {of}: they differ "
                f"by up to {off:.3g} at a few test points"
            )
    least = float(np.linalg.eigvalsh((hessian + hessian.swapaxes(1, 2)) / 2).min())
    if least < -1e-7 * (1 + float(np.abs(hessian).max())):
        raise InvalidInput(
            f"the loss {name!r} is not convex: its Hessian has an eigenvalue of {least:.3g}"
        )


def check_symmetric(loss: Loss, n_classes: int) -> None:
    """The scalar theory needs a loss of field differences that treats the classes alike.

    A part along (1, …, 1) may decouple, as in the square loss: the gradient's sum then depends on
    the sum of the fields alone.
    """
    z, y = _points(n_classes)
    slope = loss.gradient(z, y)
    size = 1e-8 * (1 + float(np.abs(slope).max()))
    along = slope.sum(1)
    shifted = loss.gradient(z + 0.7, y)
    across = slope - along[:, None] / n_classes
    moved = shifted - shifted.sum(1)[:, None] / n_classes
    decoupled = np.abs(loss.gradient(z - z.mean(1, keepdims=True), y).sum(1).std()) < size
    if np.abs(across - moved).max() > size or (np.abs(along).max() > size and not decoupled):
        raise InvalidInput(
            f"the theory needs a loss of differences of fields; the gradient of {loss.name!r} "
            f"does not sum to zero over the classes"
        )
    turn, swap = [*range(1, n_classes), 0], [1, 0, *range(2, n_classes)]
    for order in (turn, swap):  # together they make every order of the classes
        place = np.argsort(order)
        if np.abs(loss.gradient(z[:, order], place[y]) - slope[:, order]).max() > size:
            raise InvalidInput(
                f"the theory needs a loss that treats the classes alike, {loss.name!r} does not"
            )
    if type(loss).prox is not Loss.prox or type(loss).denoise is not Loss.denoise:
        return
    for V in (0.1, 1.0, 10.0):  # Newton's method must find its proximal points
        prox = loss.prox(z, y, V)
        slope = loss.gradient(prox, y)
        off = np.abs((prox - z) / V + slope)
        if not off.max() <= 1e-5 * (1 + float(np.abs(slope).max())):
            raise InvalidInput(
                f"the loss {loss.name!r} seems not to be smooth: Newton's method misses its "
                f"proximal point by a slope of {off.max():.2g} at V = {V:g}; give the loss a "
                f"method `denoise(omega, y, V)` of its own, or smooth its kinks"
            )


def _points(n_classes: int) -> tuple[Array, Labels]:
    """Eight fields (8, k) of growing size, away from any likely kink, and labels (8,)."""
    z = np.random.default_rng(0).standard_normal((8, n_classes)) * np.linspace(0.3, 3.0, 8)[:, None]
    return z, np.arange(8) % n_classes


def class_coordinates(loss: Loss, n_classes: int) -> Array:
    """B (k, r) with orthonormal columns: r = k − 1 for a loss of field differences, else r = k.

    >>> from polyceptron.problem import CrossEntropy, SquareLoss
    >>> class_coordinates(CrossEntropy(), 3).shape, class_coordinates(SquareLoss(), 3).shape
    ((3, 2), (3, 3))
    """
    z = np.random.default_rng(0).standard_normal((2 * n_classes, n_classes))
    slope = loss.gradient(z, np.arange(2 * n_classes) % n_classes)
    if float(np.abs(slope.sum(1)).max()) <= 1e-12 * float(np.abs(slope).max(initial=0.0)):
        return difference_basis(n_classes)
    return np.eye(n_classes)
