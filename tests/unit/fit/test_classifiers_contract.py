"""scikit-learn's own checks of an estimator, in full."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from polyceptron.errors import InvalidInput
from polyceptron.fit.amp_classifier import AMPClassifier
from polyceptron.fit.erm_classifier import ERMClassifier

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore:the best ridge is the")  # of random labels
@parametrize_with_checks(
    [
        ERMClassifier(),
        ERMClassifier("square", ridge=1.0),
        AMPClassifier(),
        AMPClassifier(variances="shared", noise="gaussian:0.1", fit_intercept=False),
    ]
)
def test_estimator_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("make", [ERMClassifier, AMPClassifier])
def test_what_scikit_learn_users_look_for(make):
    """Names of features, weights that are routed, a page for notebooks, every word documented."""
    data = load_iris(as_frame=True)
    model = make().fit(data.data, data.target)
    assert list(model.feature_names_in_) == list(data.data.columns)
    assert "<div" in model._repr_html_()
    text = make.__doc__
    for name in (*model.get_params(), *(n for n in vars(model) if n.endswith("_"))):
        if not name.startswith("_"):
            assert re.search(rf"^    {name} : ", text, re.M), name
    with pytest.warns(UserWarning, match="feature names"):
        model.predict(data.data.to_numpy())


X_COMPLEX = np.arange(40.0).reshape(20, 2) + 1j
WHAT_IS_NO_X = {
    "complex": X_COMPLEX,
    "complex and sparse": csr_array(X_COMPLEX),
    "one axis": np.arange(20.0),
    "text": np.full((20, 2), "a" * 10_000),
    "NaN": np.where(np.arange(40).reshape(20, 2) == 7, np.nan, 1.0),
}


@pytest.mark.parametrize("kind", WHAT_IS_NO_X)
@pytest.mark.parametrize("make", [ERMClassifier, AMPClassifier])
def test_what_is_no_matrix_of_numbers_is_one_short_sentence(make, kind):
    with pytest.raises(InvalidInput) as told:
        make().fit(WHAT_IS_NO_X[kind], np.arange(20) % 2)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 1100


def test_sample_weights_are_routed_through_a_search():
    data = load_iris()
    weights = np.linspace(0.5, 2, 150)
    with config_context(enable_metadata_routing=True):
        model = ERMClassifier(ridge=0.1).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"ridge": [0.1]}, cv=3)
        search.fit(data.data, data.target, sample_weight=weights)
    plain = ERMClassifier(ridge=0.1).fit(data.data, data.target, sample_weight=weights)
    np.testing.assert_allclose(search.best_estimator_.coef_, plain.coef_)
