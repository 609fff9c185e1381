"""A Gumbel variable plus a normal one: the utility of a class under the softmax with field noise.

- `utility`: the distribution function F of such a variable, as a table.
- `winning`: which of k classes has the largest utility, by one integral per sample.
- `three_classes`: the same for three classes, read off a spline.
- `error`: how often the label is not the class of a student.
"""

from polyceptron.numerics.gumbel.error import disagreement as disagreement
from polyceptron.numerics.gumbel.error import softmax_error as softmax_error
from polyceptron.numerics.gumbel.three_classes import three_softmax as three_softmax
from polyceptron.numerics.gumbel.utility import Utility as Utility
from polyceptron.numerics.gumbel.utility import UtilityTable as UtilityTable
from polyceptron.numerics.gumbel.utility import utility_grid as utility_grid
from polyceptron.numerics.gumbel.utility import utility_range as utility_range
from polyceptron.numerics.gumbel.utility import utility_table as utility_table
from polyceptron.numerics.gumbel.utility import utility_values as utility_values
from polyceptron.numerics.gumbel.winning import integrate_utilities as integrate_utilities
from polyceptron.numerics.gumbel.winning import winning_label as winning_label
from polyceptron.numerics.gumbel.winning import winning_utilities as winning_utilities
