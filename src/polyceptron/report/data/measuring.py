"""The numbers of a report on a table of samples, and the tables of points behind its pictures.

Errors and probabilities are those of samples that a fit has not seen: five folds, and inside each
training set growing parts of it. What fills missing values and encodes categories is fitted to the
same parts.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyceptron.data.checks import Labels
from polyceptron.errors import InvalidInput
from polyceptron.fit.erm_classifier import ERMClassifier
from polyceptron.fit.separation import separation
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem import ERM, BayesOptimal, Teacher
from polyceptron.questions.forecast import forecast
from polyceptron.questions.measured_curve import MeasuredErrors, measure_errors
from polyceptron.questions.teacher_of_data import fit_model
from polyceptron.questions.twins import twin_report
from polyceptron.report.data.alarms import find_alarms, no_ridge_alarm
from polyceptron.report.data.reading import Table
from polyceptron.rows import Row
from polyceptron.sides.generalisation import error_floor

N_FOLDS = 5
N_SIZES = 6  # points of the learning curve
FIRST_SHARE = 0.1  # of the training samples, at the first point
FIRST_PER_CLASS = 4  # samples at the first point, at least
MOST_SAMPLES = 10_000  # that are used; of more, so many are drawn
MOST_WEIGHTS = 8  # largest ones that are shown
MOST_FEATURES_OF_A_TEACHER = 2000  # up to which a teacher of their spectrum is fitted
MOST_EIGENVALUES = 50  # that are drawn
# Samples times features times classes, up to which it takes seconds:
MOST_WORK_OF_SEPARATION = 2e7
MOST_WORK_OF_RIVALS = 2e6
FEW_VALUES = 10  # a feature of so many different values is not Gaussian
HALF_WIDTH_95 = float(ndtri(0.975))  # of an interval, in standard errors
FALSE_DISCOVERIES = 0.1  # share allowed among features that are said to matter
SAMPLES_PER_BIN = 10  # of the reliability curve, at least
MOST_BINS = 8

Counts = NDArray[np.int64]
Numbers = dict[str, Any]
Tables = dict[str, list[Row]]


@dataclass
class Measured:
    """`numbers`, each by its name, and `tables`: rows of the points behind the pictures."""

    source: str
    numbers: Numbers
    tables: Tables


def measure(
    table: Table,
    *,
    seed: int = 0,
    twins: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> Measured:
    """Measure all numbers of the report, one step after another.

    Parameters
    ----------
    table : Table
    seed : int
        Of the folds and the resampling.
    twins : bool
        Whether Gaussian mixtures with the moments of the data are compared too.
    progress : callable
        It is told of each step.
    """
    steps = _Measurement(table, seed, progress)
    steps.look_at_columns()
    steps.encode()
    steps.describe_samples()
    steps.describe_features()
    steps.test_separability()
    steps.choose_ridge()
    steps.measure_curve()
    steps.measure_rivals()
    steps.fit_teacher()
    if twins:
        steps.compare_twins()
    return Measured(table.source, steps.numbers, steps.tables)


@dataclass
class _Measurement:
    """A report in the making: the samples, and what is known of them so far."""

    table: Table
    seed: int
    progress: Callable[[str], None]
    numbers: Numbers = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)
    encoded: pd.DataFrame = field(default_factory=pd.DataFrame)  # (n, d), no constant column
    scaled: Array = field(default_factory=lambda: np.empty((0, 0)))  # of mean 0 and variance 1
    classes: AnyArray = field(default_factory=lambda: np.empty(0))
    labels: Labels = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # places in it

    def look_at_columns(self) -> None:
        """Find what should alarm the reader, on all rows; then draw a part of too many."""
        self.progress("looking at the columns")
        self.tables["alarms"] = [alarm._asdict() for alarm in find_alarms(self.table, self.seed)]
        self.numbers["n_in_file"] = self.table.y.size
        if self.table.y.size > MOST_SAMPLES:
            X, _, y, _ = train_test_split(
                self.table.X,
                self.table.y,
                train_size=MOST_SAMPLES,
                stratify=self.table.y,
                random_state=self.seed,
            )
            self.table = replace(self.table, X=X, y=y)

    def encode(self) -> None:
        """Encode categories and fill missing values of all samples, for their description."""
        encoded = self.table.encoder().fit_transform(self.table.X)
        self.encoded = encoded.loc[:, encoded.std() > 0]
        if self.encoded.shape[1] == 0:
            raise InvalidInput("every feature is constant: there is nothing to learn from")
        values = self.encoded.to_numpy()
        self.scaled = (values - values.mean(0)) / values.std(0)
        self.classes, self.labels = np.unique(self.table.y, return_inverse=True)

    def describe_samples(self) -> None:
        """Count samples, features and classes, and name what was left out or read."""
        table = self.table
        n, d = self.scaled.shape
        counts = np.bincount(self.labels)
        self.numbers |= {
            "n": n,
            "d": d,
            "k": int(self.classes.size),
            "left_out": _with_words(table.left_out),
            "encoded": ", ".join(table.categories),
            "understood": _with_words(table.understood),
            "read_as": table.read_as,
            "dropped_rows": table.dropped_rows,
            "filled": _with_words(table.filled),
            "largest_class": str(self.classes[counts.argmax()]),
            "largest_share": float(counts.max() / n),
            "smallest_class": str(self.classes[counts.argmin()]),
            "smallest_share": float(counts.min() / n),
            "even_share": 1 / self.classes.size,
            "samples_per_feature": n / d,
        }

    def describe_features(self) -> None:
        """Compare the spectrum of the features with that of independent Gaussian ones."""
        n, d = self.scaled.shape
        gram = self.scaled.T @ self.scaled / n if d <= n else self.scaled @ self.scaled.T / n
        eigenvalues = np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0)
        edge = (1 + math.sqrt(d / n)) ** 2  # of independent features
        is_loud = eigenvalues > edge
        top = eigenvalues[:MOST_EIGENVALUES]
        self.tables["eigenvalues"] = _rows(rank=np.arange(1, len(top) + 1), eigenvalue=top)
        n_values = np.array([np.unique(column).size for column in self.scaled.T])
        excess_kurtosis = (self.scaled**4).mean(0) - 3
        total = float(eigenvalues.sum())
        self.numbers |= {
            "effective_dimension": total**2 / float((eigenvalues**2).sum()),
            "largest_eigenvalue": float(eigenvalues[0]),
            "noise_edge": edge,
            "loud_directions": int(is_loud.sum()),
            "loud_variance": float(eigenvalues[is_loud].sum()) / total,
            "median_excess_kurtosis": float(np.median(excess_kurtosis)),
            "few_valued_features": int((n_values <= FEW_VALUES).sum()),
        }

    def test_separability(self) -> None:
        """Find whether a linear rule separates all samples, where that takes seconds."""
        self.progress("can the classes be separated?")
        kind = "undecided"
        n, d = self.scaled.shape
        n_classes = self.classes.size
        if n * d * n_classes <= MOST_WORK_OF_SEPARATION:
            with_constant = np.hstack([self.scaled, np.ones((n, 1))])
            kind = separation(with_constant, self.labels, n_classes=n_classes).kind
        self.numbers["separation"] = kind
        self.numbers["separable"] = None if kind == "undecided" else kind == "separable"

    def choose_ridge(self) -> None:
        """Fit all samples at the best ridge, and test which features matter."""
        self.progress("choosing the ridge")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a ridge at an end is seen in the picture
            fit = ERMClassifier().fit(self.encoded, self.table.y)
        self.tables["ridge"] = _rows(**fit.path_)
        scores = getattr(fit, "scaling_scores_", {fit.scaling_: (math.nan, 0.0)})
        other = "global" if fit.scaling_ == "standard" else "standard"
        # In scikit-learn C = 1/(λd); its one vector w₁ − w₂ of two classes has C = 2/(λd).
        vectors_in_one = 2 if self.classes.size == 2 else 1
        self.numbers |= {
            "ridge": fit.ridge_,
            "ridge_method": fit.method_,
            "ridges_tried": len(self.tables["ridge"]),
            "C": vectors_in_one / (fit.ridge_ * self.encoded.shape[1]),
            "scaling": fit.scaling_,
            "scaling_score": scores[fit.scaling_][0],
            "other_score": scores.get(other, (math.nan, 0.0))[0],
        }
        self.tables["alarms"] += [alarm._asdict() for alarm in no_ridge_alarm(self.numbers["C"])]
        self._test_features(fit)

    def _test_features(self, fit: ERMClassifier) -> None:
        """Test each feature given all others; the weights that matter most go to a table.

        The columns of a category are one test.
        """
        codes = self.codes_of_categories()
        try:
            each = fit.feature_tests(self.encoded, self.table.y)
            together = each
            if codes:
                together = fit.feature_tests(self.encoded, self.table.y, joint=codes)
        except InvalidInput as error:
            self.tables["weights"] = []
            self.tables["features"] = []
            self.numbers |= {"untested": str(error), "features_that_matter": None}
            return
        q_values = together["q_value"].to_dict()
        for name, columns in codes.items():
            q_values |= dict.fromkeys(columns, q_values[name])
        rows: list[Row] = []
        scale = self.encoded.std(ddof=0)
        for column in each.columns[each.columns.str.startswith("weight_")]:
            name = column.removeprefix("weight_")
            weight = each[column] * scale
            half = HALF_WIDTH_95 * each[f"standard_error_{name}"] * scale
            rows += _rows(
                feature=each.index,
                **{"class": name},
                weight=weight,
                low=weight - half,
                high=weight + half,
                q_value=[q_values[feature] for feature in each.index],
            )
        known = [row for row in rows if not math.isnan(row["weight"])]
        self.tables["weights"] = sorted(known, key=_order_of_weights)[:MOST_WEIGHTS]
        tested = ["degrees_of_freedom", "statistic", "p_value", "q_value", "reason"]
        self.tables["features"] = _rows(feature=together.index, **together[tested])
        self.numbers |= {
            "untested": "",
            "features_tested": len(together),
            "features_that_matter": int((together["q_value"] < FALSE_DISCOVERIES).sum()),
        }

    def codes_of_categories(self) -> dict[str, list[str]]:
        """Return the encoded columns of each category, of those that vary."""
        if not self.table.categories:
            return {}
        codes = {}
        encode = self.table.encoder().fit(self.table.X).transformers_[1][1]
        encoded = encode.get_feature_names_out(list(self.table.categories))
        levels = [len(values) - 1 for values in encode[-1].categories_]
        ends = np.cumsum(levels)
        for name, first, last in zip(self.table.categories, ends - levels, ends, strict=True):
            columns = [column for column in encoded[first:last] if column in self.encoded]
            if columns:
                codes[name] = columns
        return codes

    def measure_curve(self) -> None:
        """Measure held-out error, log-loss and calibration at growing training sizes."""
        self.progress("measuring the learning curve")
        clf = make_pipeline(self.table.encoder(), ERMClassifier())
        found = self._measure(clf, self._sizes(), progress=self.progress)
        self._forecast("error", found, found.wrong)
        self._forecast("log_loss", found, found.losses)
        self.numbers |= {
            "folds": int(found.fold.max()) + 1,
            "training_size": int(found.sizes[-1]),
            "first_size": int(found.sizes[0]),
            "guess_error": 1 - self.numbers["largest_share"],
        }
        self._count_confusions(found)
        self._calibrate(found.chances, found.wrong[-1])

    def _sizes(self) -> Counts:
        """Return the training sizes, rising to all samples but one fold."""
        n = self.table.y.size
        largest = n - math.ceil(n / self._n_folds())
        first = max(FIRST_PER_CLASS * self.classes.size, FIRST_SHARE * largest)
        sizes = np.geomspace(first, largest, N_SIZES).astype(np.int64)
        return sizes[sizes <= largest]

    def _n_folds(self) -> int:
        rarest = int(np.bincount(self.labels).min())
        return min(N_FOLDS, rarest)

    def _measure(
        self, clf: Any, sizes: Counts, progress: Callable[[str], None] = lambda text: None
    ) -> MeasuredErrors:
        return measure_errors(
            clf,
            self.table.X,
            self.table.y,
            sizes,
            self._n_folds(),
            self.seed,
            chances=True,
            progress=progress,
        )

    def _forecast(self, name: str, found: MeasuredErrors, scores: Array) -> None:
        """Go on with the curve of a score, `scores` (s, N) of held-out samples."""
        n = self.numbers["n"]
        ahead = np.array([n, 2 * n, 10 * n])
        half_a_mistake = 0.5 / n  # no mistake among n samples is not a rate of 0
        law = forecast(
            found.sizes,
            scores,
            least=half_a_mistake,
            n_samples=n,
        )
        low, high = law.band(ahead)
        mean = scores.mean(1)
        # Of the held-out samples alone: the spread of training sets is not in it.
        standard_error = scores.std(1) / math.sqrt(scores.shape[1])
        if name == "error":
            standard_error = _binomial_error(mean, n)
        drawn = np.unique(np.geomspace(found.sizes[-1], 10 * n, 100))
        future = _rows(n_samples=ahead, value=law(ahead), low=low, high=high)
        self.tables[f"{name}_curve"] = _rows(
            n=found.sizes, value=mean, standard_error=standard_error
        )
        self.tables[f"{name}_law"] = _rows(n=drawn, value=law(drawn))
        self.tables[f"{name}_forecast"] = future
        self.numbers |= {
            name: float(mean[-1]),
            f"{name}_se": float(standard_error[-1]),
            f"first_{name}": float(mean[0]),
        }
        for when, row in zip(("now", "double", "tenfold"), future, strict=True):
            self.numbers |= {
                f"{name}_{when}": row["value"],
                f"n_{when}": row["n_samples"],
                f"{name}_{when}_low": row["low"],
                f"{name}_{when}_high": row["high"],
            }
        self.numbers[f"{name}_by_laws"] = law.exponent.weight_of_laws
        for law_name, share in law.weights.items():
            self.numbers[f"{name}_by_{law_name}"] = share

    def _count_confusions(self, found: MeasuredErrors) -> None:
        """Count recall and confusion of held-out samples at the largest size."""
        classes = self.classes
        predicted = classes[found.chances.argmax(1)]
        confusion = confusion_matrix(self.table.y[found.index], predicted, labels=classes)
        samples = confusion.sum(1)
        recall = confusion.diagonal() / samples
        errors = _binomial_error(recall, samples)
        names = classes.astype(str)
        named = {f"named {name}": confusion[:, i] for i, name in enumerate(names)}
        self.tables["classes"] = _rows(
            **{"class": names}, samples=samples, recall=recall, standard_error=errors, **named
        )
        worst = int(recall.argmin())
        mistakes = confusion[worst] * (np.arange(classes.size) != worst)
        self.numbers |= {
            "balanced_error": float(1 - recall.mean()),
            "balanced_error_se": float(np.linalg.norm(errors) / classes.size),
            "worst_class": str(names[worst]),
            "worst_recall": float(recall[worst]),
            "mistaken_for": str(names[int(mistakes.argmax())]),
            "mistaken_share": float(mistakes.max() / samples[worst]),
        }

    def _calibrate(self, chances: Array, wrong: Array) -> None:
        """Compare probabilities (N, k) with how often the named class is right, in even bins."""
        confidence = chances.max(1)
        is_right = 1 - wrong
        n = wrong.size
        n_bins = min(MOST_BINS, max(1, n // SAMPLES_PER_BIN))
        bins = np.array_split(np.argsort(confidence), n_bins)
        count = np.array([members.size for members in bins])
        stated = np.array([confidence[members].mean() for members in bins])
        accuracy = np.array([is_right[members].mean() for members in bins])
        self.tables["calibration"] = _rows(
            confidence=stated,
            accuracy=accuracy,
            standard_error=_binomial_error(accuracy, count),
            samples=count,
        )
        by_chance = np.sqrt(2 / math.pi * stated * (1 - stated) / count)  # mean |difference|
        self.numbers |= {
            "confidence": float(confidence.mean()),
            "accuracy": float(is_right.mean()),
            "confidence_gap": float(confidence.mean() - is_right.mean()),
            "accuracy_se": float(_binomial_error(is_right.mean(), n)),
            "calibration_error": float(np.abs(stated - accuracy) @ count) / n,
            "calibration_noise": float(by_chance @ count) / n,
        }

    def measure_rivals(self) -> None:
        """Measure other classifiers on the same folds, where that takes seconds."""
        n, d = self.scaled.shape
        rivals = {"the largest class": DummyClassifier()}
        if n * d * self.classes.size <= MOST_WORK_OF_RIVALS:
            tuned = GridSearchCV(
                LogisticRegression(max_iter=300),
                {"C": np.logspace(-3, 3, 7)},
                cv=3,
                scoring="neg_log_loss",
            )
            rivals["logistic regression, C by search"] = make_pipeline(StandardScaler(), tuned)
            rivals["random forest"] = RandomForestClassifier(random_state=self.seed)
        rows = [self._score_row("ridge cross-entropy", self.numbers["error"], math.nan)]
        rows[0]["log_loss"] = self.numbers["log_loss"]
        largest = self._sizes()[-1:]
        for name, clf in rivals.items():
            self.progress(f"measuring {name}")
            found = self._measure(make_pipeline(self.table.encoder(), clf), largest)
            rows.append(
                self._score_row(name, float(found.wrong[-1].mean()), float(found.losses[-1].mean()))
            )
        self.tables["rivals"] = rows
        _, largest_class, *others = rows
        best = min(others, key=_error_of_row, default=largest_class)
        self.numbers |= {
            "best_rival": best["classifier"],
            "best_rival_error": best["error"],
            "rivals_measured": len(rows) - 1,
        }

    def _score_row(self, name: str, error: float, log_loss: float) -> Row:
        standard_error = float(_binomial_error(error, self.table.y.size))
        return {
            "classifier": name,
            "error": error,
            "standard_error": standard_error,
            "log_loss": log_loss,
        }

    def fit_teacher(self) -> None:
        """Fit a Gaussian teacher with the data's spectrum, whose noise sets a floor."""
        self.progress("what the theory predicts")
        n, d = self.scaled.shape
        k = int(self.classes.size)
        error = np.array([self.numbers["error"]])
        alpha = self.numbers["training_size"] / d
        self.numbers |= {"alpha": alpha, "noise_floor": None, "twins": ""}
        if d <= MOST_FEATURES_OF_A_TEACHER:
            fit = fit_model(
                self.scaled,
                self.table.y,
                Teacher(k),
                BayesOptimal(),
                np.array([alpha]),
                error,
                0.5 / n,
            )
            self.numbers["noise"] = fit.noise
            self.numbers["noise_floor"] = float(error_floor(fit.teacher.channel, k))

    def compare_twins(self) -> None:
        """Compare with Gaussian mixtures that have the moments of the data."""
        compared = twin_report(
            self.scaled,
            self.labels,
            ERM(ridge=self.numbers["ridge"]),
            random_state=self.seed,
            progress=self.progress,
        )
        self.numbers["twins"] = " ".join([compared.sentence, compared.advice, *compared.caveats])
        self.tables["twins"] = _rows(**{str(name): compared.frame[name] for name in compared.frame})


def _order_of_weights(row: Row) -> tuple[bool, float]:
    """Sort key: features that matter first, and of these the largest weight."""
    matters = row["q_value"] < FALSE_DISCOVERIES
    return not matters, -abs(row["weight"])


def _error_of_row(row: Row) -> float:
    return float(row["error"])


def _with_words(words: dict[str, Any]) -> str:
    """Return names with a word each, in a sentence: 'a (dates), b (constant)'."""
    return ", ".join(f"{name} ({word})" for name, word in words.items())


def _binomial_error(share: Any, n: Any) -> Array:
    """Return the standard error of a share of n samples, that of one sample at least."""
    return np.asarray(np.sqrt(np.maximum(share * (1 - share), 1 / n) / n))


def _rows(**columns: Any) -> list[Row]:
    """Return columns as rows of plain Python values."""
    return cast(list[Row], pd.DataFrame(columns).to_dict("records"))
