"""Seeds of drawn data sets, as functions of what is drawn and of nothing else.

seed path  = (seed, hash of (model, k, prior, α, d[, noise, features, rest]), instance)
seed       = first 53 bits of SeedSequence(seed, spawn_key = the rest)
"""

import hashlib
import json
from typing import Any

import numpy as np

Content = dict[str, Any]
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def seed_path(
    seed: int, problem: Content, alpha: float, dimension: int, instance: int
) -> tuple[int, ...]:
    """(entropy, four words of the problem's hash, instance): the place of an instance's seed."""
    known = dict(problem)
    plain = [known.pop(name, None) for name in ("model", "n_classes", "prior")]
    noise, features = known.pop("noise", "none"), known.pop("features", None)
    asked = [*plain, float(alpha), dimension]
    if noise != "none" or features is not None or known:
        asked.append(noise)
    if features is not None or known:
        asked.append(features)
    digest = hashlib.sha256(_encode([*asked, known] if known else asked).encode()).digest()[:16]
    return seed, *(int.from_bytes(digest[i : i + 4], "big") for i in range(0, 16, 4)), instance


def seed_of(path: tuple[int, ...] | list[int]) -> int:
    """The seed at a path, below 2**53 so that it survives a float column, JSON and SQL."""
    sequence = np.random.SeedSequence(path[0], spawn_key=tuple(path[1:]))
    return int(sequence.generate_state(1, np.uint64)[0]) >> 11


def instance_seeds(
    seed: int, problem: Content, alpha: float, dimension: int, count: int
) -> list[int]:
    """The seeds of so many data sets: functions of their place alone."""
    return [seed_of(seed_path(seed, problem, alpha, dimension, i)) for i in range(count)]
