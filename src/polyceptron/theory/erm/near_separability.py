"""A start for α close to α_s, on either side of which weights without a ridge diverge.

ln τ, ln q and ln V are nearly straight in x = ln|α/α_s − 1|: a root further away is followed along
x towards α_s.
"""

import math
from itertools import pairwise

from polyceptron.numerics import Array
from polyceptron.progress import steps
from polyceptron.sides.scalar import Problem
from polyceptron.solve.continuation import follow_root
from polyceptron.solve.root import Root
from polyceptron.theory.erm.coarse_root import coarse_root
from polyceptron.theory.erm.equations import equations


def towards_limit(problem: Problem, limit: float) -> Root | None:
    """Return the root at the problem's α, reached from further away; None if this is not needed.

    Parameters
    ----------
    problem : Problem
    limit : float
        α_s.
    """
    off = problem.alpha / limit - 1
    if off == 0:
        return None
    goal = math.log(abs(off))
    # |α/α_s − 1| of the first roots on the way: above α_s one further away is easier to find.
    distances = [0.03]
    if off > 0:
        distances = [0.5, 0.03]
    places = [math.log(distance) for distance in distances if distance > abs(off)]
    # Panels, which miss their root soonest, begin on a level that is good to half the distance.
    sure_share = 0.5
    if problem.nodes_follow_order:
        sure_share = 1.0

    def attempt(x: float, theta: Array | None, jacobian: Array | None) -> Root:
        """Search for the root at a distance e^x from α_s."""
        distance = math.exp(x)
        alpha = limit * (1 + math.copysign(distance, off))
        system = equations(problem.at_alpha(alpha))
        return coarse_root(system, theta, jacobian, sure_share * distance)

    root = None
    for x, end in steps(pairwise([*places, goal]), 4):  # about a quarter of the whole work
        root = follow_root(attempt, x, end, root)
    return root
