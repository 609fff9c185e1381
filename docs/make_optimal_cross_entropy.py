"""Regenerate the table and the figure of optimal-cross-entropy.md (some minutes on one core).

python docs/make_optimal_cross_entropy.py
"""

from __future__ import annotations

import csv
from pathlib import Path

from polyceptron.problem import ERM, BayesOptimal, Teacher
from polyceptron.questions.asymptotics import Asymptotics, asymptotics

HERE = Path(__file__).parent
CLASSES = (2, 3, 4, 5, 10)


def main() -> None:
    """Write data/*.csv and images/optimal-cross-entropy.svg."""
    points: list[dict[str, object]] = []
    summary: list[dict[str, object]] = []
    for k in CLASSES:
        best = asymptotics(Teacher(k), ERM("cross-entropy", "optimal"))
        bayes = asymptotics(Teacher(k), BayesOptimal())
        points += rows(k, best, bayes)
        summary.append(line(k, best, bayes))
        print(summary[-1], flush=True)
        write(HERE / "data" / "optimal-cross-entropy.csv", points)
        write(HERE / "data" / "optimal-cross-entropy-summary.csv", summary)
    draw(points)


def rows(k: int, best: Asymptotics, bayes: Asymptotics) -> list[dict[str, object]]:
    """One row for each α: both errors, their uncertainties, the ridge and the ratio."""
    out: list[dict[str, object]] = []
    for i, alpha in enumerate(best.alpha):
        e, b = best.generalisation_error[i], bayes.generalisation_error[i]
        spread = e / b * ((best.uncertainty[i] / e) ** 2 + (bayes.uncertainty[i] / b) ** 2) ** 0.5
        out.append(
            {
                "n_classes": k,
                "alpha": f"{alpha:.8g}",
                "ridge": f"{best.ridge[i]:.4g}",
                "cross_entropy": f"{e:.8g}",
                "cross_entropy_uncertainty": f"{best.uncertainty[i]:.1e}",
                "bayes": f"{b:.8g}",
                "bayes_uncertainty": f"{bayes.uncertainty[i]:.1e}",
                "ratio": f"{e / b:.7f}",
                "ratio_uncertainty": f"{spread:.1e}",
            }
        )
    return out


def line(k: int, best: Asymptotics, bayes: Asymptotics) -> dict[str, object]:
    """Exponent and constant, measured and exact."""
    ratio = best.constant / bayes.constant
    spread = ratio * (
        best.constant_uncertainty / best.constant + bayes.constant_uncertainty / bayes.constant
    )
    exact = ""  # two classes have none but the measured one
    if best.exact_constant is not None:
        exact = f"{best.exact_constant:.7f}"
    return {
        "n_classes": k,
        "alpha_max": f"{best.alpha[-1]:.0e}",
        "exponent": f"{best.exponent:.7f}",
        "exponent_uncertainty": f"{best.exponent_uncertainty:.0e}",
        "constant": f"{best.constant:.7f}",
        "constant_uncertainty": f"{best.constant_uncertainty:.0e}",
        "exact_constant": exact,
        "bayes_constant": f"{bayes.constant:.7f}",
        "ratio": f"{ratio:.6f}",
        "ratio_uncertainty": f"{spread:.0e}",
    }


def write(path: Path, table: list[dict[str, object]]) -> None:
    """A CSV file of the rows."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


def draw(points: list[dict[str, object]]) -> None:
    """Left: αε/(k−1) against α. Right: the excess over Bayes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "polyceptron"  # the same file for the same data
    mpl.rcParams["svg.fonttype"] = "none"
    figure = Figure(figsize=(8, 3.3), layout="constrained")
    left, right = figure.subplots(1, 2)
    for k in CLASSES:
        mine = [point for point in points if point["n_classes"] == k]
        alpha = [float(str(point["alpha"])) for point in mine]
        scaled = [
            float(str(p["cross_entropy"])) * a / (k - 1) for p, a in zip(mine, alpha, strict=True)
        ]
        excess = [float(str(point["ratio"])) - 1 for point in mine]
        error = [float(str(point["ratio_uncertainty"])) for point in mine]
        left.plot(alpha, scaled, ".-", label=f"k = {k}")
        right.errorbar(alpha, excess, yerr=error, fmt=".-", capsize=2, label=f"k = {k}")
    left.axhline(0.4419779, color="0.6", lw=0.8, zorder=0)
    right.axhline(0.000629, color="0.6", lw=0.8, zorder=0)
    left.set(xscale="log", xlabel="α", ylabel="α ε / (k − 1), best ridge")
    right.set(xscale="log", xlabel="α", ylabel="ε / Bayes − 1", ylim=(-0.001, 0.002))
    left.legend(frameon=False)
    target = HERE / "images" / "optimal-cross-entropy.svg"
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main()
