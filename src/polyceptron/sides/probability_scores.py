"""Scores of a student's probabilities on fresh samples, with error bars, where classes are equal.

    test loss  −E Σ_l t_l ln p_l,    Brier score  E Σ_l t_l ‖p − e_l‖²,    calibration error

as `fresh_scores.py` defines them. A bar is the sum of two parts: what the nodes leave open, and by
how much a score moves within the uncertainty of the order parameters. The latter is known of the
error only, ε, which is a function of τ: ln τ is uncertain by Δε/|dε/d ln τ|, and ln q by twice as
much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, estimate_from_replicates
from polyceptron.problem.channels import Channel
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.specs import Probabilities
from polyceptron.sides.fresh_scores import Bins, Fresh, fresh_fields, mean_scores, reliability
from polyceptron.sides.generalisation import error_slope

ROUNDING_OF_PANELS = 1e-12  # of a mean score, where two levels of panels agree to all digits
LARGEST_K_OF_PANELS = 3  # above it `fresh_fields` samples, and replicates tell the uncertainty
LARGEST_UNCERTAINTY_OF_LOG_TAU = 3.0  # beyond it nothing is known of a score


class MeanScoresWithBars(NamedTuple):
    """Test loss and Brier score."""

    test_loss: Estimate
    brier: Estimate


@dataclass(frozen=True)
class ProbabilityScores:
    """The scores at known order parameters, for any probabilities that are read from the fields.

    Attributes
    ----------
    channel : Channel
    n_classes : int
    order : ScalarOrder
    error_uncertainty : float
        Of the generalisation error at `order`.
    """

    channel: Channel
    n_classes: int
    order: ScalarOrder
    error_uncertainty: float = 0.0

    @cached_property
    def levels(self) -> list[Fresh]:
        """The fields of fresh samples: two levels of panels, or random points."""
        levels = [fresh_fields(self.channel, self.n_classes, self.order, 0)]
        if self.n_classes <= LARGEST_K_OF_PANELS:
            levels.append(fresh_fields(self.channel, self.n_classes, self.order, 1))
        return levels

    @property
    def nodes(self) -> Fresh:
        """The fields of fresh samples on the finest level."""
        return self.levels[-1]

    def means(self, probabilities: Probabilities | None) -> MeanScoresWithBars:
        """Return test loss and Brier score.

        Parameters
        ----------
        probabilities : callable, optional
            Fields (n, k) → class probabilities (n, k); without it the true ones given the fields.
        """
        changes = self._changes(probabilities)
        of_nodes = self._means_over_nodes(probabilities)
        loss, brier = map(_widened, of_nodes, changes)
        return MeanScoresWithBars(loss, brier)

    def calibration(self, probabilities: Probabilities, edges: Array) -> tuple[Bins, Estimate]:
        """Return the bins of confidence between `edges` (b + 1,), and the calibration error."""
        bins, error = reliability(self.channel, self.n_classes, self.order, probabilities, edges)
        return bins, _widened(error, sum(self._changes(probabilities)))

    def _means_over_nodes(self, probabilities: Probabilities | None) -> list[Estimate]:
        """Return test loss and Brier score with the uncertainty of the nodes alone.

        It is the difference of two levels of panels, or follows from the replicates of points.
        """
        finest = _mean_scores(self.nodes, probabilities)
        if len(self.levels) == 1:
            return [estimate_from_replicates(values) for values in finest]
        coarse = _mean_scores(self.levels[0], probabilities)
        estimates = []
        for fine_values, coarse_values in zip(finest, coarse, strict=True):
            apart = abs(fine_values.mean() - coarse_values.mean())
            estimates.append(Estimate(fine_values.mean(), apart + ROUNDING_OF_PANELS))
        return estimates

    @cached_property
    def log_tau_uncertainty(self) -> float:
        """Uncertainty of ln τ; 0 where the error does not depend on τ."""
        slope = error_slope(self.channel, self.order.tau, self.n_classes)
        if slope == 0:
            return 0.0
        return self.error_uncertainty / slope

    @cached_property
    def _neighbours(self) -> list[Fresh]:
        """The fields where τ, and where q, is off by its uncertainty."""
        width = self.log_tau_uncertainty
        order = self.order
        return [
            fresh_fields(self.channel, self.n_classes, moved)
            for moved in (
                replace(order, tau=order.tau * math.exp(width)),
                replace(order, q=order.q * math.exp(2 * width)),
            )
        ]

    def _changes(self, probabilities: Probabilities | None) -> tuple[float, float]:
        """Return by how much test loss and Brier score move with τ, plus by how much with q."""
        if not self.log_tau_uncertainty <= LARGEST_UNCERTAINTY_OF_LOG_TAU:
            return math.inf, math.inf
        before = _mean_scores(self.levels[0], probabilities)
        loss_change = 0.0
        brier_change = 0.0
        for nodes in self._neighbours:
            after = _mean_scores(nodes, probabilities)
            loss_change += abs(float((after[0] - before[0]).mean()))
            brier_change += abs(float((after[1] - before[1]).mean()))
        return loss_change, brier_change


def _mean_scores(nodes: Fresh, probabilities: Probabilities | None) -> tuple[Array, Array]:
    """Return test loss and Brier score in each replicate, (R,) each."""
    if probabilities is None:
        return mean_scores(nodes, lambda _: nodes.truth)
    return mean_scores(nodes, probabilities)


def _widened(estimate: Estimate, by: float) -> Estimate:
    """Return the estimate with a larger uncertainty."""
    return Estimate(estimate.value, np.asarray(estimate.uncertainty + by))
