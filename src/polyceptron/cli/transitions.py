"""Where learning changes at the shell: transitions, separability."""

from __future__ import annotations

import math
from typing import Any

from polyceptron.cli import options
from polyceptron.cli.printing import check_outputs, echo, emit, format_value, print_table
from polyceptron.cli.waiting import waiting


def transitions(
    classes: options.Classes = None,
    prior: options.Prior = "rademacher",
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    tol: options.Tolerance = None,
    as_json: options.Json = False,
    csv: options.Csv = None,
) -> None:
    """Phase transitions: where perfect learning becomes possible, and where it becomes easy.

    Example: polyceptron transitions --classes 3
    """
    teacher = options.build_teacher(model, classes, prior, noise, features)
    check_outputs(csv)

    from polyceptron.theory import transitions as find

    with waiting(f"computing the transitions of {teacher.n_classes} classes"):
        found = find(teacher, tol)
    if as_json or csv is not None:
        emit([found.as_dict()], (), as_json=as_json, csv=csv)
        return
    title = options.describe_teacher(teacher)
    if found.alpha_it is None or found.alpha_algo is None:
        echo(f"none: with {title} the error decays smoothly")
        return
    meanings = (
        ("alpha_IT", "alpha_it", "perfect learning possible"),
        ("alpha_algo", "alpha_algo", "and easy (message passing does it)"),
    )
    if not teacher.noise.noiseless:
        meanings = (
            ("alpha_IT", "alpha_it", "the best error jumps down"),
            ("alpha_algo", "alpha_algo", "and message passing gets there"),
        )
    rows: list[dict[str, Any]] = [
        {
            "transition": label,
            "alpha": f"{getattr(found, name):.8g}",
            "uncertainty": getattr(found, f"{name}_uncertainty"),
            "meaning": meaning,
        }
        for label, name, meaning in meanings
    ]
    columns = ("transition", "alpha", "uncertainty", "meaning")
    print_table(rows, columns, f"{title} ({found.status})", optional=("meaning",))
    echo(f"hard phase: {found.alpha_it:.6g} < α < {found.alpha_algo:.6g}")


def separability(
    classes: options.Classes = None,
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    tol: options.Tolerance = None,
    as_json: options.Json = False,
    csv: options.Csv = None,
) -> None:
    """Separability: the α_s below which noisy labels can still be separated.

    Below it a ridge of 0 means max-margin, above it the maximum-likelihood estimate exists.

    Example: polyceptron separability --classes 3 --noise softmax:2
    """
    teacher = options.build_teacher(model, classes, "gaussian", noise, features)
    check_outputs(csv)

    from polyceptron.theory.separability import separability as find

    with waiting(f"computing the separability of {teacher.n_classes} classes"):
        found = find(teacher, tol)
    if as_json or csv is not None:
        emit([found.as_dict()], (), as_json=as_json, csv=csv)
    elif math.isinf(found.alpha_s):
        echo("alpha_s is infinite: labels without noise can be separated at every alpha")
    else:
        spread = format_value(found.alpha_s_uncertainty, "uncertainty")
        echo(
            f"{teacher.model}, k = {teacher.n_classes}, noise {teacher.noise.name}: "
            f"alpha_s = {found.alpha_s:.7g} ± {spread} ({found.status})"
        )
