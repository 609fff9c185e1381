"""What a problem is: teachers, channels, priors, losses, penalties, estimators, laws of fields."""

from polyceptron.problem.channels import *
from polyceptron.problem.losses import *
from polyceptron.problem.order import Conjugates as Conjugates
from polyceptron.problem.order import ScalarOrder as ScalarOrder
from polyceptron.problem.penalties import *
from polyceptron.problem.populations import *
from polyceptron.problem.priors import *
from polyceptron.problem.pruned import Pruned as Pruned
from polyceptron.problem.registry import Entry as Entry
from polyceptron.problem.registry import Registry as Registry
from polyceptron.problem.specs import *
from polyceptron.problem.spectrum import *
