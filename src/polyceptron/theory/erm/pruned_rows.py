"""Rows of empirical risk minimisation on a part of the samples, chosen by their margin.

The samples that are kept are n' = keep·n samples of a channel of their own (`KeptLabels`): a
dropped sample has no loss, and pulls no weights. So the row at α is the fixed point at
α' = keep·α with that channel. The error is that of fresh samples, none of them dropped; training
loss and error are means over the samples that are kept. Where a probe other than the teacher
chooses, the channel depends on the student's direction (`probed`).
"""

from collections.abc import Iterable, Iterator

from polyceptron.checks import check_alpha
from polyceptron.errors import InvalidInput
from polyceptron.problem.pruned import Pruned
from polyceptron.problem.specs import ERM
from polyceptron.progress import steps
from polyceptron.rows import Row, make_row
from polyceptron.theory.erm.probed import probed_row
from polyceptron.theory.erm.rows import erm_parts


def pruned_parts(
    population: Pruned,
    spec: ERM,
    parts: Iterable[Iterable[float]],
    tol: float | None,
    searched: float,
) -> Iterator[list[Row]]:
    """Yield the rows of one curve part by part; the parameters are those of `erm_parts`."""
    check_spec_of_pruned(spec)
    if population.probe_counts:
        yield from _parts_of_probe(population, spec, parts, tol)
        return
    asked: list[float] = []

    def kept_alphas() -> Iterator[list[float]]:
        """Yield the α of the samples kept, part by part."""
        for part in parts:
            asked[:] = [check_alpha(alpha) for alpha in part]
            yield [population.keep * alpha for alpha in asked]

    for rows in erm_parts(population.kept, spec, kept_alphas(), tol, searched):
        yield [_of_all(population, row, alpha) for row, alpha in zip(rows, asked, strict=True)]


def _parts_of_probe(
    population: Pruned, spec: ERM, parts: Iterable[Iterable[float]], tol: float | None
) -> Iterator[list[Row]]:
    """Yield the rows of samples that a probe has chosen, part by part."""
    for part in parts:
        rows = []
        for alpha in steps([check_alpha(alpha) for alpha in part]):
            row = probed_row(population, spec, population.keep * alpha, tol)
            rows.append(_of_all(population, row, alpha))
        yield rows


def check_spec_of_pruned(spec: ERM) -> None:
    """Raise `InvalidInput` for an intercept or class weights, which pruned data do not take."""
    if spec.intercept or spec.class_weight is not None:
        raise InvalidInput("pruned data take neither an intercept nor class weights")


def _of_all(population: Pruned, row: Row, alpha: float) -> Row:
    """Return a row of the kept samples as a row of the population, at α of all samples."""
    of_population = {**population.columns, "alpha": alpha, "alpha_kept": population.keep * alpha}
    return make_row(**(row | of_population))
