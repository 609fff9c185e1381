"""Mathematics that knows no teacher: orthant probabilities, panels, estimates with their error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
AnyArray = NDArray[Any]
