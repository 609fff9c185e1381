"""What a store says: means over instances with theory beside them, failures, tables in files.

Means over instances, in one place.

    mean            x̄ = Σ xᵢ / n
    standard error  √( Σ (xᵢ − x̄)² / (n (n − 1)) ),  of x̄; it needs two numbers

One value at a time (Welford's recurrence), so that a million rows need no memory and no two large
sums are subtracted.

The error of found weights against the teacher that drew the data, as columns of a row.

    generalisation_error   P(argmax Ŵᵀx ≠ y), y as the teacher draws it, noise included
    clean_error            the same against argmax W*ᵀx; only where labels are noisy

Both follow from the weights without a test set; on one, if asked, they are counted. Only there are
a student's probabilities p measured,

    test_loss              −mean ln p_y            brier   mean ‖p − e_y‖²
    calibration_error      Σ_b |hits − confidence| / n over 15 even bins b of max p
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.algorithms.overlaps import exact_generalisation_error
from polyceptron.errors import InvalidInput
from polyceptron.experiments.schema import decode_row, sort_key
from polyceptron.experiments.spec import SweepSpec
from polyceptron.experiments.spec_checks import REACHED
from polyceptron.experiments.store import Store
from polyceptron.experiments.tasks import NOISELESS, sweep_keys
from polyceptron.files import write_atomically
from polyceptron.model import AnyTeacher
from polyceptron.numerics import Array
from polyceptron.rows import Status

if TYPE_CHECKING:
    import pandas as pd


SUMMARY_COLUMNS = (
    "source", "model", "n_classes", "prior", "noise", "features", "estimator", "ridge", "alpha",
    "dimension",
    "start", "branch", "instances", "mean", "standard_error", "theory", "theory_uncertainty",
    "deviation", "not_converged", "failed",
)  # fmt: skip
QUANTITIES = (
    "generalisation_error", "clean_error", "m", "q", "V", "training_error", "training_loss",
    "test_loss", "brier", "calibration_error",
)  # fmt: skip

_PROBLEM = ("model", "n_classes", "prior", "noise", "features", "estimator", "ridge", "alpha")


@dataclass
class Average:
    """Mean and standard error of the numbers added so far.

    A value that is no finite number (None, NaN, ±∞) has no place in a mean: it is counted in
    `missing`.

    >>> found = Average()
    >>> for value in (1.0, 2.0, None, 6.0):
    ...     found.add(value)
    >>> found.count, found.missing, found.mean, round(found.standard_error, 6)
    (3, 1, 3.0, 1.527525)
    """

    count: int = 0
    missing: int = 0
    _mean: float = 0.0
    _squares: float = 0.0  # Σ (xᵢ − x̄)²

    def add(self, value: float | None) -> None:
        """Take one more value."""
        if value is None or not math.isfinite(value):
            self.missing += 1
            return
        self.count += 1
        step = float(value) - self._mean
        self._mean += step / self.count
        self._squares += step * (float(value) - self._mean)

    @property
    def mean(self) -> float | None:
        """The mean; None of no number."""
        return self._mean if self.count else None

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean; None of fewer than two numbers."""
        if self.count < 2:
            return None
        return math.sqrt(self._squares / (self.count - 1) / self.count)


@dataclass
class _Group:
    """The rows that differ in their instance alone."""

    shown: dict[str, Any]
    content: Mapping[str, Any]
    value: Average = field(default_factory=Average)
    statuses: Counter[str] = field(default_factory=Counter)


def summary(
    store: Store, *, quantity: str = "generalisation_error", spec: SweepSpec | None = None
) -> list[dict[str, Any]]:
    """One row for each point of the grid: mean over instances, its standard error, theory beside.

    The mean is over every row that has a number; rows that did not converge are in it and are
    counted in `not_converged`, failed ones have no number and are counted in `failed`.
    Message passing stands beside its own branch of the theory: the one that it reaches from its
    start. `deviation` is (mean − theory) in units of its uncertainty; a finite dimension adds a
    bias of order 1/d to it. Theory that no simulation stands beside has lines of its own.
    """
    if quantity not in QUANTITIES:
        raise InvalidInput(f"unknown quantity {quantity!r}: allowed are {', '.join(QUANTITIES)}")
    groups: dict[str, _Group] = {}
    theory: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for record in _records(store, spec):
        # Rows from before there was noise have none.
        content = {"noise": NOISELESS} | json.loads(record["task"])
        row: dict[str, Any] = {"noise": NOISELESS} | decode_row(record["row"])
        if content["source"] == "theory":
            branch = content.get("branch", "")
            theory.setdefault(_problem(content), {})[branch] = row
            continue
        content.pop("seed_path")
        name = json.dumps(content, sort_keys=True)
        if name not in groups:
            shown = {column: row.get(column) for column in SUMMARY_COLUMNS if column in row}
            shown.pop("branch", None)
            groups[name] = _Group(shown | {"start": content.get("start")}, content)
        groups[name].value.add(row.get(quantity))
        groups[name].statuses[row["status"]] += 1
    lines, compared = [], set()
    for group in groups.values():
        # message passing has its own branch of the theory; a minimiser of a loss has only one
        branch = REACHED[group.content["start"]] if "start" in group.content else ""
        problem = _problem(group.content)
        predicted = theory.get(problem, {}).get(branch, {})
        compared.add((problem, branch))
        lines.append(_line(group, branch, predicted, quantity))
    for problem, branches in theory.items():
        for branch, row in branches.items():
            if (problem, branch) not in compared:
                lines.append(_theory_line(row, quantity))
    return sorted(lines, key=sort_key)


def summary_frame(
    store: Store, *, quantity: str = "generalisation_error", spec: SweepSpec | None = None
) -> pd.DataFrame:
    """The summary as a table."""
    import pandas as pd

    lines = summary(store, quantity=quantity, spec=spec)
    return pd.DataFrame(lines, columns=list(SUMMARY_COLUMNS))


def failures(store: Store) -> list[dict[str, Any]]:
    """The rows that could not be computed, each with its reason."""
    records = store.records(str(Status.FAILED))
    return sorted(
        ({**decode_row(record["row"]), "reason": record["reason"]} for record in records),
        key=sort_key,
    )


def write_csv(table: pd.DataFrame, path: str | Path) -> None:
    """Write a CSV file in one piece."""
    write_atomically(path, lambda temporary: table.to_csv(temporary, index=False))


def write_parquet(table: pd.DataFrame, path: str | Path) -> None:
    """Write a Parquet file in one piece; it needs the extra `export`."""
    check_parquet()
    write_atomically(path, lambda temporary: table.to_parquet(temporary, index=False))


def check_parquet() -> None:
    """Raise a sentence unless pyarrow is there."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise InvalidInput(
            "writing Parquet needs pyarrow: pip install 'polyceptron[export]', or use --csv"
        ) from None


def _records(store: Store, spec: SweepSpec | None) -> Iterable[dict[str, Any]]:
    if spec is None:
        return store.records()
    return store.records_of(sweep_keys(spec))


def _problem(content: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(content.get(name) for name in _PROBLEM)


def _line(
    group: _Group, branch: str, predicted: Mapping[str, Any], quantity: str
) -> dict[str, Any]:
    mean, error = group.value.mean, group.value.standard_error
    expected = predicted.get(quantity)
    uncertainty = predicted.get("uncertainty") if quantity == "generalisation_error" else None
    return {
        **group.shown,
        "branch": branch if predicted and branch else None,
        "instances": group.value.count,
        "mean": mean,
        "standard_error": error,
        "theory": expected,
        "theory_uncertainty": uncertainty if expected is not None else None,
        "deviation": deviation(mean, error, expected, uncertainty),
        "not_converged": group.statuses[str(Status.NOT_CONVERGED)],
        "failed": group.statuses[str(Status.FAILED)],
    }


def _theory_line(row: dict[str, Any], quantity: str) -> dict[str, Any]:
    shown = {column: row.get(column) for column in SUMMARY_COLUMNS if column in row}
    uncertainty = row.get("uncertainty") if quantity == "generalisation_error" else None
    return {
        **shown,
        "theory": row.get(quantity),
        "theory_uncertainty": uncertainty,
        "not_converged": int(row["status"] == Status.NOT_CONVERGED),
        "failed": int(row["status"] == Status.FAILED),
    }


def average(values: Iterable[float | None]) -> Average:
    """The average of a list.

    >>> average([0.25, 0.75]).mean
    0.5
    """
    found = Average()
    for value in values:
        found.add(value)
    return found


def deviation(
    mean: float | None,
    standard_error: float | None,
    expected: float | None,
    uncertainty: float | None = None,
) -> float | None:
    """z = (mean − expected) / √(standard_error² + uncertainty²); None where it means nothing.

    >>> deviation(5.0, 0.75, 2.5, 1.0)
    2.0
    """
    if mean is None or not standard_error or expected is None or not math.isfinite(expected):
        return None
    return (mean - expected) / math.hypot(standard_error, uncertainty or 0.0)


Columns = dict[str, float]
_QUANTILE = 2.576  # standard deviations of a normal that hold 99 of 100 cases
_N_BINS = 15
_CHUNK_NUMBERS = 2_000_000  # of a test set held at once


def exact_errors(weights: Any, truth: Any, teacher: AnyTeacher, seed: int = 0) -> Columns:
    """Of weights (d, k) and the teacher's (d, k); `seed` is for integrals that need points."""
    noise, features = teacher.channel, teacher.features
    error = exact_generalisation_error(weights, truth, noise=noise, features=features, seed=seed)
    columns = {"generalisation_error": error.value, "uncertainty": error.uncertainty}
    if not noise.noiseless:
        clean = exact_generalisation_error(weights, truth, features=features, seed=seed)
        columns["clean_error"] = clean.value
    return columns


def counted_errors(
    weights: Array,
    truth: Array,
    teacher: AnyTeacher,
    n_samples: int,
    seed: int,
    says: Callable[[Array], Array] | None = None,
) -> Columns:
    """On `n_samples` new samples, which follow from the seed of the training data.

    `says` turns the student's fields (n, k) into its probabilities (n, k).

    Children of the seed: 0 draws the noise of training labels (`teacher.label_generator`), or the
    new inputs where there is no noise; otherwise 1 draws the new inputs and 2 their labels.
    """
    noise = teacher.channel
    children = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3)]
    inputs, labels = (children[0], None) if noise.noiseless else children[1:]
    d, k = truth.shape
    root = teacher.features.deviations(d).T
    scores, bins = np.zeros(2), np.zeros(_N_BINS)
    chunk = max(1, _CHUNK_NUMBERS // d)
    wrong = np.zeros(2, dtype=np.int64)
    for start in range(0, n_samples, chunk):
        X = inputs.standard_normal((min(chunk, n_samples - start), d)) * root
        own, fields = X @ weights / math.sqrt(d), X @ truth / math.sqrt(d)
        answer, drawn = own.argmax(1), noise.sample(fields, labels)
        wrong += [(answer != drawn).sum(), (answer != fields.argmax(1)).sum()]
        if says is not None:
            p = says(own)
            said, top = p[np.arange(len(p)), drawn], p.max(1)
            scores += [-np.log(np.maximum(said, 1e-300)).sum(), ((p * p).sum(1) - 2 * said).sum()]
            place = np.clip((top - 1 / k) / (1 - 1 / k) * _N_BINS, 0, _N_BINS - 1).astype(int)
            bins += np.bincount(place, (answer == drawn) - top, _N_BINS)
    # Half a count more keeps the uncertainty positive when no error, or no success, was seen.
    smoothed = (wrong[0] + 0.5) / (n_samples + 1)
    columns = {
        "generalisation_error": wrong[0] / n_samples,
        "uncertainty": _QUANTILE * math.sqrt(smoothed * (1 - smoothed) / n_samples),
    }
    if not noise.noiseless:
        columns["clean_error"] = wrong[1] / n_samples
    if says is not None:
        columns["test_loss"], columns["brier"] = scores[0] / n_samples, 1 + scores[1] / n_samples
        columns["calibration_error"] = float(np.abs(bins).sum()) / n_samples
    return columns
