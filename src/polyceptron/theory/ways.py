"""Where the faster way round the loop is chosen, for empirical risk minimisation.

The plain loop (`theory/loop.py`) always works. In order:

1. ridge 0: what the loss says that λ → 0⁺ means where the data can be separated (max-margin for
   cross-entropy); with noisy labels that is below α_s, and above it the loss without any ridge;
2. averages in closed form and a ridge: the fixed point in closed form, up to one scalar equation
   for correlated features;
3. a scale-free loss and a ridge: two equations, shorter for independent features; should Newton's
   method lose its way on those of a spectrum (next to α_s they may cancel), the three of 4;
4. a ridge: three equations in which nothing cancels, shorter for independent features;
5. any other penalty: Newton's method on one round of the loop.

Each is tested against the plain loop. The Bayes-optimal way, a curve α(q̂), is in
`theory/bayes_optimal`.
"""

from __future__ import annotations

from polyceptron.errors import InvalidInput
from polyceptron.model.law import Law
from polyceptron.model.losses import Loss
from polyceptron.model.teacher import AnyTeacher
from polyceptron.theory.erm.equations import (
    Equations,
    IsotropicEquations,
    LoopEquations,
    RidgeEquations,
    ScaleFreeEquations,
    ScaleFreeLevels,
)
from polyceptron.theory.separability import alpha_s
from polyceptron.theory.sides import Problem


def separable_up_to(teacher: AnyTeacher) -> float:
    """α_s of the teacher's labels in the features that the student sees."""
    return alpha_s(teacher.channel, teacher.n_classes) * teacher.features.rank


class NotSeparableHere(InvalidInput):
    """A margin is asked for where no weights separate the labels."""


def loss_at_ridge(loss: Loss, ridge: float | str, teacher: AnyTeacher, alpha: float) -> Loss:
    """The loss that is solved for: itself, or at λ = 0 its limit, or a sentence.

    Where hard constraints cannot be met, above α_s, the loss has a minimum of its own.
    """
    found = loss.without_ridge() if ridge == 0 else loss
    if found is None:
        raise InvalidInput(
            f"the loss {loss.name!r} does not say what a ridge of 0 means: give a ridge above 0"
        )
    if (
        not found.scale_free
        or teacher.channel.noiseless
        or alpha < (limit := separable_up_to(teacher))
    ):
        return found
    if loss.scale_free:
        raise NotSeparableHere(
            f"{loss.name} needs classes that can be separated, which is so below alpha_s = "
            f"{limit:.6g} for {teacher.n_classes} classes with noise {teacher.noise.name}; "
            f"got alpha {alpha:g}"
        )
    return loss


def in_closed_form(problem: Problem) -> bool:
    """Whether the whole fixed point is explicit, up to one scalar equation for a spectrum."""
    return (
        problem.weights.penalty.quadratic
        and problem.fields.explicit(Law(1.0, 1.0, 1.0)) is not None
    )


def equations(problem: Problem) -> Equations:
    """The system to give to Newton's method."""
    simple, scale_free = problem.spectrum.isotropic, problem.loss.scale_free
    if not problem.weights.penalty.quadratic:
        return LoopEquations(problem.at(ridge=1.0) if scale_free else problem)
    if scale_free:
        return ScaleFreeEquations(problem) if simple else ScaleFreeLevels(problem.at(ridge=1.0))
    return IsotropicEquations(problem) if simple else RidgeEquations(problem)


def otherwise(system: Equations) -> Equations | None:
    """The system to try where Newton's method has failed on the chosen one."""
    return RidgeEquations(system.problem) if isinstance(system, ScaleFreeLevels) else None
