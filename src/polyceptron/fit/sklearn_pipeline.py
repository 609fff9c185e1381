"""A fitted linear classifier as a scikit-learn pipeline with the same probabilities.

    p = softmax(Wᵀ(x − shift)/scale + b)

is a `StandardScaler` followed by a `LogisticRegression`: other programs that read these, as
converters to ONNX do, can then run the classifier without this package.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from polyceptron.numerics import Array


def fitted_pipeline(
    shift: Array,
    scale: Array,
    coef: Array,
    intercept: Array,
    classes: NDArray[np.generic],
    C: float,
) -> Pipeline:
    """Return a fitted pipeline of a scaler and a logistic regression.

    Parameters
    ----------
    shift, scale : (d,)
        Features become (x − shift)/scale.
    coef : (k, d), or (1, d) for two classes
        Weights of the features as they were given.
    intercept : (k,) or (1,)
        Bias of the features as they were given.
    classes : (k,)
        Labels.
    C : float
        Inverse strength of the ridge in scikit-learn's convention.

    Returns
    -------
    Pipeline
    """
    n_features = shift.size
    scaler = StandardScaler()
    scaler.mean_ = shift.copy()
    scaler.scale_ = scale.copy()
    scaler.var_ = scale**2
    scaler.n_samples_seen_ = 1
    scaler.n_features_in_ = n_features
    regression = LogisticRegression(C=C)
    regression.classes_ = classes.copy()
    regression.coef_ = coef * scale
    regression.intercept_ = intercept + coef @ shift
    regression.n_iter_ = np.array([1], dtype=np.int32)
    regression.n_features_in_ = n_features
    return Pipeline([("scale", scaler), ("classify", regression)])
