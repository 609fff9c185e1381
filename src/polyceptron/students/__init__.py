"""One file for each student: its theory, and its simulation by message passing or fits.

`student_of` turns a specification or a name into its student, by one table.
"""

from typing import Any

from polyceptron.problem.specs import (
    ERM,
    SGD,
    BayesOptimal,
    ClassMeans,
    DiscriminantAnalysis,
    Estimator,
    MismatchedBayes,
    OneVsRest,
    PosteriorAverage,
    as_estimator,
)
from polyceptron.students.base import CustomStudent as CustomStudent
from polyceptron.students.base import Student as Student
from polyceptron.students.bayes import BayesStudent, PosteriorAverageStudent
from polyceptron.students.class_means import ClassMeansStudent
from polyceptron.students.erm import ErmStudent
from polyceptron.students.lda import DiscriminantStudent
from polyceptron.students.mismatched_bayes import MismatchedBayesStudent
from polyceptron.students.one_vs_rest import OneVsRestStudent
from polyceptron.students.sgd import SGDStudent

STUDENTS: dict[type[Estimator], Any] = {
    BayesOptimal: BayesStudent,
    PosteriorAverage: PosteriorAverageStudent,
    MismatchedBayes: MismatchedBayesStudent,
    ERM: ErmStudent,
    OneVsRest: OneVsRestStudent,
    DiscriminantAnalysis: DiscriminantStudent,
    ClassMeans: ClassMeansStudent,
    SGD: SGDStudent,
}


def simulate(
    teacher: Any, estimator: Any, alpha: float, dimension: int, seed: int = 0, **settings: Any
) -> dict[str, Any]:
    """Draw round(αd) samples in d dimensions, fit them, and return the row of the fit.

    Parameters
    ----------
    teacher : Teacher or another population
    estimator : Estimator, Loss or str
    alpha : float
        n/d.
    dimension : int
    seed : int
        `teacher.sample(round(alpha * dimension), dimension, seed)` draws the same data again.
    settings
        Options of the solver; `test_samples` counts errors on so many new samples.

    Returns
    -------
    dict
        The tidy row of the fit.

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> simulate(Teacher(3), "square", 2.0, 50)["n_samples"]
    100
    """
    (row,) = student_of(estimator).simulate(teacher, alpha, dimension, seed, **settings)
    return row


def student_of(estimator: Any) -> Student:
    """Return the student of a specification, a loss or a name; a student is its own.

    >>> student_of("square").spec.name
    'square'
    """
    if isinstance(estimator, Student):
        return estimator
    spec = as_estimator(estimator)
    if isinstance(spec, Student):  # a name of the user's own
        return spec
    for kind in type(spec).__mro__:
        if kind in STUDENTS:
            student: Student = STUDENTS[kind](spec)
            return student
    raise TypeError(
        f"no student computes {type(spec).__name__}: subclass polyceptron.students.CustomStudent"
    )
