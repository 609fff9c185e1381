"""Training data of which a part is kept, chosen by the margin: a teacher with a selection.

Of n = αd samples the share `keep` with the smallest ("hard") or the largest ("easy") margin is
kept, or a random share. The margin is the largest of a probe's k fields less the second. The probe
is the teacher itself or, for two classes, other weights whose fields correlate with the teacher's.
Fresh samples, on which errors are measured, are not selected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np

from polyceptron.checks import check_size
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.channels import Channel
from polyceptron.problem.channels.kept import Kept, KeptLabels
from polyceptron.problem.channels.kept_by_probe import KeptByProbe
from polyceptron.problem.population import Dataset, FeatureLevels, Population

WHICH = ("hard", "easy", "random")


@dataclass(frozen=True, repr=False)
class Pruned(Population):
    """A teacher of whose samples a share is kept for training, chosen by their margin.

    Parameters
    ----------
    teacher : Teacher
        A teacher of equal classes, without noise.
    keep : float
        The share of the samples that is kept, above 0 and at most 1.
    which : 'hard', 'easy' or 'random'
        Whether the smallest margins are kept, the largest, or any.
    probe : float
        The correlation of the fields from which margins are taken with the teacher's, from 0 to 1,
        where the teacher itself chooses. Below 1 there are two classes.

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> Pruned(Teacher(3), 0.5, "hard").columns["prune"]
    'hard:0.5'
    >>> len(Pruned(Teacher(3), 0.25, "easy").sample(40, 5, seed=0).y)
    10
    """

    teacher: Any
    keep: float = 0.5
    which: str = "hard"
    probe: float = 1.0

    takes = ("prune",)
    symmetric = False  # classes are alike, but not every theory of such teachers serves

    def __post_init__(self) -> None:
        _check_kept_teacher(self.teacher)
        if self.which not in WHICH:
            raise InvalidInput(f"pruning keeps 'hard', 'easy' or 'random', got {self.which!r}")
        if not _is_number(self.keep) or not 0 < self.keep <= 1:
            raise InvalidInput(
                f"the share of samples that pruning keeps must be above 0 and at most 1, got "
                f"{self.keep!r}"
            )
        if not _is_number(self.probe) or not 0 <= self.probe <= 1:
            raise InvalidInput(
                "the probe's correlation with the teacher must be a number from 0 to 1, got "
                f"{self.probe!r}"
            )
        if self.probe < 1 and self.teacher.n_classes > 2:
            raise InvalidInput(
                f"a probe below 1 takes two classes, got probe = {self.probe!r} and "
                f"{self.teacher.n_classes} classes"
            )
        object.__setattr__(self, "keep", float(self.keep))
        object.__setattr__(self, "probe", float(self.probe))

    @classmethod
    def of_columns(cls, n_classes: int | None, **given: Any) -> Self:
        """Refuse: `of_text` makes a pruned teacher from its teacher and the selection."""
        raise InvalidInput(
            "a pruned teacher cannot be made from columns alone: use Pruned(teacher, ...)"
        )

    @classmethod
    def of_text(cls, teacher: Any, prune: Any) -> Self:
        """Return a teacher with the selection that a text such as 'hard:0.5' describes."""
        which, *numbers = str(prune).split(":")
        try:
            keep, probe = map(float, [*numbers, "1"][:2])
        except ValueError:
            numbers = []
        if len(numbers) not in (1, 2):
            raise InvalidInput(
                "pruning must be written hard:SHARE, easy:SHARE or random:SHARE, with :PROBE "
                f"behind it for a probe that is not the teacher, got {prune!r}"
            )
        return cls(teacher, keep, which, probe)

    @property
    def model(self) -> str:  # type: ignore[override]
        """The model of the teacher."""
        return str(self.teacher.model)

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        """The number of classes k."""
        return int(self.teacher.n_classes)

    @property
    def prunes_all_alike(self) -> bool:
        """Whether the samples that are kept are like all others."""
        return self.which == "random" or self.keep == 1

    @property
    def kept(self) -> Any:
        """The teacher of the samples that are kept: its labels are those of `KeptLabels`."""
        if self.prunes_all_alike:
            return self.teacher
        return self._with_labels(KeptLabels(self.n_classes, self.keep, cast(Kept, self.which)))

    @property
    def probe_counts(self) -> bool:
        """Whether samples are chosen by a probe that is not the teacher."""
        return self.probe < 1 and not self.prunes_all_alike

    def kept_along(self, angle: float) -> Any:
        """Return the teacher of the kept samples as a student sees it along a direction.

        The direction is at `angle` from the teacher, towards the probe (`KeptByProbe`).
        """
        noise = KeptByProbe(self.keep, cast(Kept, self.which), self.probe, angle)
        return self._with_labels(noise)

    def _with_labels(self, noise: Channel) -> Any:
        """Return the teacher with another channel."""
        return type(self.teacher)(
            self.n_classes, prior=self.teacher.prior, noise=noise, features=self.teacher.features
        )

    @property
    def label_channel(self) -> Channel | None:  # type: ignore[override]
        """Refuse: whoever asks has a theory of samples that are not selected."""
        raise InvalidInput(
            "for pruned data there is only the learning curve and the simulation of empirical risk "
            f"minimisation; got {self!r}"
        )

    @property
    def class_shares(self) -> Array:  # type: ignore[override]
        """The share of each class among the kept samples, shape (k,): that of the teacher."""
        return cast(Array, self.teacher.class_shares)

    @property
    def levels_of_features(self) -> FeatureLevels:  # type: ignore[override]
        """The levels of the teacher's features."""
        return cast(FeatureLevels, self.teacher.levels_of_features)

    @property
    def features(self) -> Any:
        """The spectrum of the teacher's features."""
        return self.teacher.features

    @property
    def columns(self) -> dict[str, Any]:  # type: ignore[override]
        """The columns of a row: those of the teacher, and the selection."""
        prune = f"{self.which}:" + repr(self.keep).removesuffix(".0")
        if self.probe < 1:
            prune += ":" + repr(self.probe).removesuffix(".0")
        return {**self.teacher.columns, "prune": prune}

    def __repr__(self) -> str:
        words = f"{self.teacher!r}, keep={self.keep!r}, which={self.which!r}"
        if self.probe < 1:
            words += f", probe={self.probe!r}"
        return f"Pruned({words})"

    def draw(self, X: Array, rng: np.random.Generator) -> tuple[Any, Array]:
        """Fill X (n, d) with all samples of the teacher and return labels (n,) and its weights."""
        return cast(tuple[Any, Array], self.teacher.draw(X, rng))

    def sample(self, n_samples: int, dimension: int | None = None, seed: Any = None) -> Dataset:
        """Draw n samples in d dimensions and return those that are kept, round(keep·n) of them.

        `seed` is an int, a SeedSequence or a Generator; the n samples are those of the teacher.
        """
        n = check_size(n_samples, "n_samples")
        n_kept = round(self.keep * n)
        if n_kept < 1:
            raise InvalidInput(f"a share of {self.keep:g} of {n} samples leaves no sample")
        rng = np.random.default_rng(seed)
        X, y, weights = self.teacher.sample(n, dimension, rng)
        if self.which == "random":
            chosen = rng.permutation(n)[:n_kept]
        else:
            fields = np.sort(X @ self._probe_weights(weights, rng) / math.sqrt(X.shape[1]), axis=1)
            margins = fields[:, -1] - fields[:, -2]
            if self.which == "easy":
                margins = -margins
            chosen = np.argpartition(margins, n_kept - 1)[:n_kept]
        chosen.sort()
        return Dataset(X[chosen], y[chosen], weights)

    def _probe_weights(self, weights: Array, rng: np.random.Generator) -> Array:
        """Return the weights (d, k) of the probe, given those of the teacher."""
        if self.probe == 1:
            return weights
        others = self.teacher.draw_weights(rng, len(weights))
        return np.asarray(self.probe * weights + math.sqrt(1 - self.probe**2) * others)


def _check_kept_teacher(teacher: Any) -> None:
    """Raise `InvalidInput` unless a teacher has equal classes and exact labels."""
    plain = getattr(teacher, "model", None) == "argmax" and getattr(teacher, "symmetric", False)
    if not plain or not teacher.channel.noiseless:
        raise InvalidInput(
            "pruning takes a Teacher of equal classes, without noise and without a hidden share in "
            f"its features; got {teacher!r}"
        )


def _is_number(value: Any) -> bool:
    """Return True for a real number that is no bool."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
