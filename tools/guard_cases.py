"""The cases of the guard: which questions are asked of polyceptron (see `guard.py`).

A case is a call of the public interface, as text that can be pasted after
`from polyceptron import *` (and `from scipy.linalg import toeplitz` for covariances of classes):

    learning_curve(Teacher(3, noise='softmax:2'), ERM('hinge', 0.1), 2)

Every student, loss, penalty, prior, noise and feature model that is registered is asked at each
number of classes and at both ends of α and λ. Pairs of members (a noise with a student, a prior
with a feature model, ...) are asked at least once, at a number of classes, an α and a λ that change
from pair to pair. Pairs without a theory are left out when the table is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

CLASSES = (2, 3, 5, 10)
ALPHAS = (0.3, 2, 50)
# Pairs (α, λ): the four corners of the square, and its middle.
CORNERS = ((0.3, 0.001), (50, 10), (2, 0.1), (50, 0.001), (0.3, 10))

# Students whose strength of regularisation is a number.
RIDGE_STUDENTS = (
    "ERM('cross-entropy', {ridge})",
    "ERM('square', {ridge})",
    "ERM('hinge', {ridge})",
    "ERM('weston-watkins', {ridge})",
    "ERM('squared-hinge', {ridge})",
    "ERM('smoothed:0.1', {ridge})",
    "ERM('cross-entropy', penalty='elastic-net:{ridge}:{ridge}')",
    "OneVsRest({ridge})",
    "OneVsRest({ridge}, 'square')",
    "DiscriminantAnalysis({ridge})",
)
# Students that have none, or for which it is the limit 0.
OTHER_STUDENTS = (
    "'bayes'",
    "'average'",
    "'class-means'",
    "ERM('max-margin')",
    "ERM('cross-entropy', 0)",
    "ERM('square', 0)",
)
# Students that are asked with equal classes only.
STUDENTS_OF_EQUAL_CLASSES = ("SGD(rate=1.0)", "MismatchedBayes('gaussian:1')")
STUDENTS = (*RIDGE_STUDENTS, *OTHER_STUDENTS)
# What matters only where classes are unequal.
INTERCEPT_STUDENTS = (
    "ERM('cross-entropy', {ridge}, intercept=True)",
    "ERM('cross-entropy', {ridge}, class_weight='balanced')",
    "ERM('square', {ridge}, intercept=True, class_weight='balanced')",
    "ERM('hinge', {ridge}, intercept=True)",
    "ERM('max-margin', intercept=True)",
)

PRIORS = (
    "rademacher",
    "ternary",
    "finite[-2:0.125;0:0.75;2:0.125]",
    "sparse-gaussian:0.2",
    "laplace",
    "scipy[uniform]",
)
NOISES = ("gaussian:0.25", "softmax:2", "flips:0.1")
FEATURES = (
    "power:1.2:200",
    "levels:10x0.2@3,1x0.8",
    "marchenko-pastur:0.5",
    "random-features:tanh:2",
)

SHARES = {
    2: "(0.8, 0.2)",
    3: "(0.6, 0.3, 0.1)",
    5: "(0.4, 0.3, *(0.1,) * 3)",
    10: "(0.28, *(0.08,) * 9)",
}

# Cases of the design that take more than 3 CPU seconds each and are left out. A few others as long
# as these are kept.
TOO_SLOW = (
    "learning_curve(Teacher(10), OneVsRest(0.001), 50)",
    "learning_curve(Teacher(3, features='random-features:tanh:2'),"
    " ERM('cross-entropy', penalty='elastic-net:10:10'), 0.3)",
    "learning_curve(Teacher(10, 'ternary', features='marchenko-pastur:0.5'), 'bayes', 50)",
    "learning_curve(Mixture((0.28, *(0.08,) * 9), separation=2, variances=(2.0, *(1.0,) * 9)),"
    " ERM('weston-watkins', 0.001), 50)",
    "learning_curve(Mixture((0.28, *(0.08,) * 9), separation=2),"
    " ERM('hinge', 0.001, intercept=True), 50)",
    "learning_curve(Mixture((0.28, *(0.08,) * 9), separation=2, variances=(2.0, *(1.0,) * 9)),"
    " ERM('hinge', 10, intercept=True), 0.3)",
    "learning_curve(Mixture((0.4, 0.3, *(0.1,) * 3), separation=2, variances=(2.0, *(1.0,) * 4)),"
    " ERM('hinge', 10), 50)",
    "learning_curve(Teacher(5), ERM('weston-watkins', penalty='elastic-net:10:10'), 0.3)",
    "learning_curve(Mixture((1 / 10,) * 10, separation=2,"
    " levels=((0.5, *(2.0, *(1.0,) * 9), 0.7), (0.5, *(0.5,) * 10, 0.3))),"
    " ERM('hinge', 10, intercept=True), 0.3)",
    "asymptotics(Teacher(10), OneVsRest(0.1))",
    "asymptotics(Teacher(5), ERM('cross-entropy', penalty='elastic-net:10:10'))",
    "plan(Teacher(10), 0.3, OneVsRest(0.1))",
)


def cases() -> list[str]:
    """Return every case once, in a fixed order."""
    parts = (
        students_on_equal_classes(),
        students_on_unequal_classes(),
        noises(),
        features(),
        priors(),
        penalties(),
        best_ridges(),
        perceptrons(),
        probabilities(),
        bayes_questions(),
        data_questions(),
        imbalance_questions(),
    )
    every_case = dict.fromkeys(case for part in parts for case in part)
    return [case for case in every_case if case not in TOO_SLOW]


def curve(population: str, student: str, alpha: float, ridge: float | str = 0.1) -> str:
    """Return the case of one student at one α; `ridge` goes where the student asks for it."""
    return f"learning_curve({population}, {student.format(ridge=repr(ridge))}, {alpha})"


def changing(*places: int) -> tuple[int, float, float]:
    """Return a number of classes, an α and a λ for the pair of members at these places.

    Along a row or a column of the table of pairs all twenty combinations come in turn.
    """
    place = sum(places)
    alpha, ridge = CORNERS[place % len(CORNERS)]
    return CLASSES[place % len(CLASSES)], alpha, ridge


def unequal_populations(k: int) -> tuple[str, ...]:
    """Return populations of k classes that are not alike, one of each kind."""
    shares = SHARES[k]
    first_is_wider = f"(2.0, *(1.0,) * {k - 1})"
    levels = f"((0.5, *{first_is_wider}, 0.7), (0.5, *(0.5,) * {k}, 0.3))"
    return (
        f"Teacher({k}, shares={shares})",
        f"Teacher({k}, noise='softmax:2', gram=toeplitz([1.0, 0.5, *(0.0,) * {k - 2}]))",
        f"Mixture({shares}, separation=2)",
        f"Mixture((1 / {k},) * {k}, separation=3)",
        f"Mixture({shares}, separation=2, variances={first_is_wider})",
        f"Mixture((1 / {k},) * {k}, separation=2, levels={levels})",
    )


def students_on_equal_classes() -> Iterator[str]:
    """Yield every student at every number of classes, each at both ends of α and λ."""
    for k, student, (alpha, ridge) in product(CLASSES, RIDGE_STUDENTS, CORNERS):
        yield curve(f"Teacher({k})", student, alpha, ridge)
    without_ridge = (*OTHER_STUDENTS, *STUDENTS_OF_EQUAL_CLASSES)
    for k, student, alpha in product(CLASSES, without_ridge, ALPHAS):
        yield curve(f"Teacher({k})", student, alpha)


def students_on_unequal_classes() -> Iterator[str]:
    """Yield every student with every kind of unequal classes, at every third number of classes."""
    students = (*STUDENTS, *INTERCEPT_STUDENTS)
    for (h, k), (i, student) in product(enumerate(CLASSES), enumerate(students)):
        for j, population in enumerate(unequal_populations(k)):
            if (h + i + j) % 3 == 0 and not slow_population(population):
                alpha, ridge = CORNERS[(h + i + j // 2) % len(CORNERS)]
                yield curve(population, student, alpha, ridge)
    for population in filter(slow_population, unequal_populations(10)):
        yield curve(population, "ERM('square', {ridge})", 2)
        yield curve(population, "ERM('cross-entropy', {ridge})", 50)


def slow_population(population: str) -> bool:
    """Return whether a population is a teacher of ten unequal classes: about 5 s for a point."""
    return population.startswith("Teacher(10")


def noises() -> Iterator[str]:
    """Yield the Bayes-optimal student for every noise, k and α, and every student for each."""
    for noise, k, alpha in product(NOISES, CLASSES, ALPHAS):
        yield curve(f"Teacher({k}, noise={noise!r})", "'bayes'", alpha)
    for (i, noise), (j, student) in product(enumerate(NOISES), enumerate(STUDENTS)):
        k, alpha, ridge = changing(i, j)
        yield curve(f"Teacher({k}, noise={noise!r})", student, alpha, ridge)


def features() -> Iterator[str]:
    """Yield the Bayes-optimal student for every feature model, k and α; also other pairs."""
    for model, k, alpha in product(FEATURES, CLASSES, ALPHAS):
        yield curve(f"Teacher({k}, features={model!r})", "'bayes'", alpha)
    for (i, model), (j, student) in product(enumerate(FEATURES), enumerate(STUDENTS)):
        k, alpha, ridge = changing(i, j)
        yield curve(f"Teacher({k}, features={model!r})", student, alpha, ridge)
    for (i, model), (j, noise) in product(enumerate(FEATURES), enumerate(NOISES)):
        k, alpha, ridge = changing(i, j)
        teacher = f"Teacher({k}, noise={noise!r}, features={model!r})"
        yield curve(teacher, "'bayes'", alpha)
        yield curve(teacher, "ERM('cross-entropy', {ridge})", alpha, ridge)


def priors() -> Iterator[str]:
    """Yield the Bayes-optimal student for every prior, k and α; also with noise and features."""
    for prior, k, alpha in product(PRIORS, CLASSES, ALPHAS):
        yield curve(f"Teacher({k}, {prior!r})", "'bayes'", alpha)
    for (i, prior), (j, noise) in product(enumerate(PRIORS), enumerate(NOISES)):
        k, alpha, _ = changing(i, j)
        yield curve(f"Teacher({k}, {prior!r}, {noise!r})", "'bayes'", alpha)
    for (i, prior), (j, model) in product(enumerate(PRIORS), enumerate(FEATURES)):
        k, alpha, _ = changing(i, j)
        yield curve(f"Teacher({k}, {prior!r}, features={model!r})", "'bayes'", alpha)


def penalties() -> Iterator[str]:
    """Yield the elastic net with every loss, prior, noise and feature model.

    Of all penalties but the ridge the result depends on the prior.
    """
    net = "ERM({loss!r}, penalty='elastic-net:{ridge}:{ridge}')"
    losses = ("cross-entropy", "square", "hinge", "weston-watkins", "squared-hinge", "smoothed:0.1")
    teachers = (
        *(f"Teacher({{k}}, {prior!r})" for prior in PRIORS),
        *(f"Teacher({{k}}, noise={noise!r})" for noise in NOISES),
        *(f"Teacher({{k}}, features={model!r})" for model in FEATURES),
    )
    for i, (loss, k) in enumerate(product(losses, CLASSES)):
        alpha, ridge = CORNERS[i % len(CORNERS)]
        yield curve(f"Teacher({k})", net.format(loss=loss, ridge=ridge), alpha)
    for i, teacher in enumerate(teachers):
        k, alpha, ridge = changing(i)
        yield curve(teacher.format(k=k), net.format(loss=losses[i % 6], ridge=ridge), alpha)


def best_ridges() -> Iterator[str]:
    """Yield every student that takes a ridge at its best ridge, for equal and unequal classes."""
    students = [student for student in RIDGE_STUDENTS if "penalty" not in student]
    for i, (student, k) in enumerate(product(students, CLASSES)):
        yield curve(f"Teacher({k})", student, ALPHAS[i % len(ALPHAS)], "optimal")
    for i, student in enumerate(students):
        population = unequal_populations(2)[i % 6]
        yield curve(population, student, ALPHAS[i % len(ALPHAS)], "optimal")


def perceptrons() -> Iterator[str]:
    """Yield the classical perceptron with every prior, noise and feature model."""
    for i, prior in enumerate(("gaussian", *PRIORS)):
        yield curve(f"Perceptron({prior!r})", "'bayes'", ALPHAS[i % len(ALPHAS)])
    for noise in NOISES:
        yield curve(f"Perceptron(noise={noise!r})", "'bayes'", 2)
        yield curve(f"Perceptron(noise={noise!r})", "ERM('cross-entropy', {ridge})", 2)
    for model in FEATURES:
        yield curve(f"Perceptron(features={model!r})", "'bayes'", 2)


def probabilities() -> Iterator[str]:
    """Yield the scores of label probabilities: test loss, Brier score, calibration error."""
    students = ("'bayes'", "'average'", "ERM('cross-entropy', 0.1)", "ERM('square', 0.1)")
    for i, (student, k) in enumerate(product(students, CLASSES)):
        noise = NOISES[i % len(NOISES)]
        yield f"calibration(Teacher({k}, noise={noise!r}), {student}, 2)"
    for k in CLASSES:
        for population in unequal_populations(k)[::2]:
            yield f"calibration({population}, ERM('cross-entropy', 0.1), 2)"


def bayes_questions() -> Iterator[str]:
    """Yield phase transitions and all fixed points of the Bayes-optimal theory."""
    for prior, k in product(PRIORS, CLASSES):
        yield f"transitions(Teacher({k}, {prior!r}))"
    for noise in NOISES:
        yield f"transitions(Teacher(3, 'rademacher', {noise!r}))"
    for model in FEATURES:
        yield f"transitions(Teacher(3, 'rademacher', features={model!r}))"
    yield "transitions(Perceptron())"
    for k, alpha in zip(CLASSES, (1.4, 2.6, 3.4, 4.6), strict=True):
        yield f"fixed_points(Teacher({k}, 'rademacher'), {alpha})"


def data_questions() -> Iterator[str]:
    """Yield questions about amounts of data: α_s, large α, planning, resampling."""
    for noise, k in product(NOISES, CLASSES):
        yield f"separability(Teacher({k}, noise={noise!r}))"
    for k in CLASSES:
        yield f"separability(Mixture({SHARES[k]}, separation=2), intercept=True)"
    for i, student in enumerate(STUDENTS):
        k, _, ridge = changing(i)
        written = student.format(ridge=ridge)
        yield f"asymptotics(Teacher({k}), {written})"
        yield f"plan(Teacher({k}), 0.3, {written})"
    for scheme, k in product(("bootstrap", "subsample:0.5", "folds:5"), CLASSES):
        yield f"resampling(Teacher({k}), ERM('cross-entropy', 0.1), 2, {scheme!r})"
        yield f"resampling(Teacher({k}), ERM('square', 0.1), 2, {scheme!r})"


def imbalance_questions() -> Iterator[str]:
    """Yield the best rules of unequal classes."""
    student = "ERM('cross-entropy', 0.1, intercept=True)"
    for k in CLASSES:
        for population in unequal_populations(k):
            yield f"population_floor({population})"
            yield f"linear_floor({population})"
    for k in (2, 3):
        for population in unequal_populations(k):
            yield f"best_shift({population}, {student}, 2)"
    yield f"best_class_weight(Mixture({SHARES[2]}, separation=2), {student}, 2)"
    yield f"best_class_weight(Teacher(3, shares={SHARES[3]}), {student}, 2)"
