"""What a problem is: teachers, channels, priors, losses, penalties, estimators, laws of fields."""

from polyceptron.problem.channels import *
from polyceptron.problem.law import Hats as Hats
from polyceptron.problem.law import Law as Law
from polyceptron.problem.losses import *
from polyceptron.problem.penalties import *
from polyceptron.problem.populations import *
from polyceptron.problem.priors import *
from polyceptron.problem.registry import Entry as Entry
from polyceptron.problem.registry import Registry as Registry
from polyceptron.problem.specs import *
from polyceptron.problem.spectrum import *
