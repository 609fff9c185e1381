"""Anderson's method for a fixed point x = g(x) of any vector x.

With the residual F(x) = g(x) − x a plain round is x ← x + F(x). The method remembers how the last
moves ΔX changed the residual, ΔF, and takes the combination of rounds whose residual is least:

    x ← x + βF − (ΔX + βΔF) γ,      γ = argmin ‖F − ΔF γ‖

with a damping β. The caller computes residuals and decides when to stop and when to give the memory
up; nothing here knows what x is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from polyceptron.numerics import Array


@dataclass
class Anderson:
    """The memory of Anderson's method, for vectors x (n,).

    Attributes
    ----------
    depth : int
        How many moves are remembered.
    cutoff : float
        Singular values of ΔF below this share of the largest count as 0.
    damping : float
        β: the share of a residual that a plain round takes.
    moves, changes : list of array, shape (n,)
        ΔX and ΔF, the latest last.
    last_point, last_residual : array, shape (n,), or None
        The x recorded last and F(x), from which the next move is counted.
    """

    depth: int
    cutoff: float
    damping: float = 1.0
    moves: list[Array] = field(default_factory=list)
    changes: list[Array] = field(default_factory=list)
    last_point: Array | None = None
    last_residual: Array | None = None

    def record(self, x: Array, residual: Array) -> None:
        """Remember x (n,) and F(x) (n,), and the move that led there."""
        if self.last_point is not None and self.last_residual is not None:
            self.moves.append(x - self.last_point)
            self.changes.append(residual - self.last_residual)
            n_too_old = max(len(self.moves) - self.depth, 0)
            del self.moves[:n_too_old]
            del self.changes[:n_too_old]
        self.last_point = x
        self.last_residual = residual

    def step(self, residual: Array) -> Array:
        """Return the step (n,) to take from the point recorded last.

        `residual` (n,) is F there, or that of another map with nearly the same ΔX and ΔF.
        """
        plain = self.damping * residual
        if not self.changes:
            return plain
        dX = np.array(self.moves).T
        dF = np.array(self.changes).T
        gamma = np.linalg.lstsq(dF, residual, rcond=self.cutoff)[0]
        return np.asarray(plain - (dX + self.damping * dF) @ gamma)

    def failed(self, residual: Array, ratio: float) -> bool:
        """Return whether a combination of rounds led to a residual larger by more than `ratio`."""
        if not self.changes or self.last_residual is None:
            return False
        is_smaller = np.abs(residual).max() <= ratio * np.abs(self.last_residual).max()
        return not is_smaller  # a residual that is not a number has failed

    def leave_point(self) -> None:
        """Begin elsewhere, or with another map: the next point recorded is no move."""
        self.last_point = None
        self.last_residual = None

    def forget(self) -> None:
        """Give all moves up."""
        self.moves.clear()
        self.changes.clear()
        self.leave_point()
