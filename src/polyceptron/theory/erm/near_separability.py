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

# |α/α_s − 1| of the first roots on the way: the further one above α_s only.
FAR_DISTANCE = 0.5
NEAR_DISTANCE = 0.03
SURE_SHARE_OF_PANELS = 0.5  # of the distance: panels miss their root soonest
SHARE_OF_PROGRESS = 4  # parts of the work of which this start is counted as one


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
    places = [math.log(NEAR_DISTANCE)]
    if off > 0:
        places = [math.log(FAR_DISTANCE), math.log(NEAR_DISTANCE)]
    places = [x for x in places if x > goal]
    sure_share = 1.0 if problem.nodes_follow_order else SURE_SHARE_OF_PANELS

    def attempt(x: float, theta: Array | None, jacobian: Array | None) -> Root:
        distance = math.exp(x)
        alpha = limit * (1 + math.copysign(distance, off))
        system = equations(problem.at_alpha(alpha))
        return coarse_root(system, theta, jacobian, sure_share * distance)

    root = None
    for x, end in steps(pairwise([*places, goal]), SHARE_OF_PROGRESS):
        root = follow_root(attempt, x, end, root)
    return root
