"""The variance of the labels' noise with the best leave-one-out score, for message passing.

Message passing at a noise gives a `Posterior`, whose `log_chance` are the log-probabilities of the
labels given all other samples. Along a grid of variances, the search goes from a middle one down
and then up while scores get better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from polyceptron.data.watching import uninterrupted
from polyceptron.message_passing.correlated import Posterior
from polyceptron.problem.channels import Channel, GaussianNoise
from polyceptron.rows import Status

Run = Callable[[Channel, float, Posterior | None], Posterior]
"""Message passing at a noise and a tolerance, from the end of a run at another noise if given."""


class NoiseGrid(NamedTuple):
    """Variances Δ of Gaussian noise to try.

    Attributes
    ----------
    variances : tuple of float
        In rising order.
    first : int
        The number of the one that is tried first.
    quick_tolerance : float
        The tolerance of message passing while Δ is sought, 0 for the classifier's own.
    """

    variances: tuple[float, ...]
    first: int
    quick_tolerance: float


def best_posterior(run: Run, noise: Channel | None, tol: float, grid: NoiseGrid) -> Posterior:
    """Return the posterior at the noise asked for, or at that of the best leave-one-out score.

    If the search is interrupted it is the best of those tried, at the tolerance of the search, with
    the status 'interrupted'.
    """
    if noise is not None:
        return run(noise, tol, None)
    search = _NoiseSearch(run, tol, grid)
    try:
        return search.best()
    except KeyboardInterrupt:
        if not search.tried:
            raise
        best = max(search.tried, key=lambda posterior: posterior.rank)
        return replace(best, end=replace(best.end, status=Status.INTERRUPTED))


@dataclass
class _NoiseSearch:
    """A walk along a grid of variances, and the posteriors that were tried."""

    run: Run
    tol: float
    grid: NoiseGrid
    tried: list[Posterior] = field(default_factory=list)

    def best(self) -> Posterior:
        """Return the posterior of the best score, to the tolerance that is asked for."""
        variances, first, quick_tolerance = self.grid
        quick = max(self.tol, quick_tolerance)
        start = self._at(GaussianNoise(variances[first]), quick, None)
        best = self._along(variances[:first][::-1], quick, start)  # falling from the first one
        if best is start or not best.converged:
            best = self._along(variances[first + 1 :], quick, best)
        if quick == self.tol:
            return best
        last = self._at(best.channel, self.tol, best)
        if last.converged or not best.converged:
            return last
        return best

    def _along(self, variances: tuple[float, ...], tol: float, best: Posterior) -> Posterior:
        """Return the best along some variances, on while scores get better or none converged.

        A `rank` is higher for a run that converged; among those, for the higher mean
        log-probability of left-out labels.
        """
        for variance in variances:
            found = self._at(GaussianNoise(variance), tol, best)
            if found.rank > best.rank:
                best = found
            elif best.converged:
                break
        return best

    def _at(self, channel: Channel, tol: float, near: Posterior | None) -> Posterior:
        """Run message passing at a noise, from the end of another run."""
        posterior = self.run(channel, tol, near)
        self.tried.append(posterior)
        uninterrupted(posterior.end)
        return posterior
