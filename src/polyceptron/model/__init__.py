"""What a problem is: teachers, channels, priors, losses, penalties, estimators, laws of fields."""

from polyceptron.model.channels import *
from polyceptron.model.estimators import *
from polyceptron.model.features import *
from polyceptron.model.law import Hats as Hats
from polyceptron.model.law import Law as Law
from polyceptron.model.losses import *
from polyceptron.model.penalties import *
from polyceptron.model.populations import *
from polyceptron.model.priors import *
from polyceptron.model.registry import Entry as Entry
from polyceptron.model.registry import Registry as Registry
