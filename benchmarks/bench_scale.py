"""Data larger than memory: time against reading the file once, resident memory, growth, rivals.

A float32 file of independent inputs with noisy labels of a teacher, 0.5 GB unless --size (or
BENCH_SCALE_GB) says otherwise. Each run is a process of its own, whose peak of resident memory is
the system's own count. The held-out error is that of fresh samples.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from polyceptron.data.design import Design
from polyceptron.data.stored_designs import FileDesign
from polyceptron.fit.erm import fit_erm
from polyceptron.message_passing.posterior_mean import amp
from polyceptron.problem import Teacher

DIMENSION, CLASSES, NOISE, RIDGE = 2000, 3, "gaussian:0.5", 1.0
RIVALS_GB = 0.5
FRESH = 20_000
STEP = 4096  # rows drawn at once


def bench() -> list[dict[str, Any]]:
    """Rows name, ours_seconds, rival_seconds, ratio, note."""
    size = float(os.environ.get("BENCH_SCALE_GB", "0.5"))
    table = _at_scale(size, rivals=size <= RIVALS_GB)
    if size > RIVALS_GB:  # the rivals' time would be hours, and their accuracy is seen on less
        table += _at_scale(RIVALS_GB, rivals=True)
    return table + growth()


def _at_scale(size: float, *, rivals: bool) -> list[dict[str, Any]]:
    """Both fits to a file of so many GB, against reading it, and rivals if asked."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_SCALE_DIR")) as folder:
        place = Path(folder)
        make_file(place, round(size * 1e9 / (4 * DIMENSION)), DIMENSION)
        found = {job: run(place, job) for job in ("read", "amp", "erm")}
        table = [_against_reading(size, found, job) for job in ("amp", "erm")]
        if rivals:
            passes = found["erm"]["reads"]
            table.append(_against_rival(size, found["erm"], run(place, "sgd", passes), passes))
            table += _dask_ml(place)
    return table


def make_file(folder: Path, n: int, d: int) -> None:
    """X.npy (n, d) in single precision, y.npy, and fresh samples beside them."""
    teacher = Teacher(CLASSES, noise=NOISE)
    rng = np.random.default_rng(0)
    W = teacher.sample(1, d, 0).weights.astype(np.float32)

    def labels(X: Any) -> Any:
        fields = X @ W / math.sqrt(d) + math.sqrt(0.5) * rng.standard_normal((len(X), CLASSES))
        return fields.argmax(1)

    out = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, d))
    y = np.empty(n, np.int64)
    for first in range(0, n, STEP):
        part = rng.standard_normal((min(STEP, n - first), d), dtype=np.float32)
        out[first : first + len(part)] = part
        y[first : first + len(part)] = labels(part)
    out.flush()
    fresh = rng.standard_normal((min(FRESH, n), d), dtype=np.float32)
    np.save(folder / "y.npy", y)
    np.savez(folder / "fresh.npz", X=fresh, y=labels(fresh))


def run(folder: Path, job: str, passes: int = 1) -> dict[str, Any]:
    """One job in a process of its own, and what it printed."""
    command = [sys.executable, __file__, job, str(folder), str(passes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def child(job: str, folder: Path, passes: int) -> dict[str, Any]:
    """What `run` runs."""
    y = np.load(folder / "y.npy")
    X = Counted(np.load(folder / "X.npy", mmap_mode="r"))
    found: dict[str, Any] = {}
    begin, busy = time.perf_counter(), time.process_time()
    if job == "read":
        for _, block in X.blocks():
            block[0, 0]
    elif job == "amp":
        result = amp(X, y, noise=NOISE, tol=1e-5)
        found |= {"status": str(result.status), "iterations": result.n_iter}
        weights = result.weights
    elif job == "erm":
        fit = fit_erm(X, y, "cross-entropy", RIDGE, tol=1e-6)
        found |= {"status": str(fit.status), "iterations": fit.n_iter}
        weights = fit.weights
    else:
        weights = _sgd(X, y, passes)
    found |= {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - busy}
    found |= {"reads": X.reads, "peak": _peak()}
    if job != "read":
        fresh = np.load(folder / "fresh.npz")
        found["error"] = float(np.mean((fresh["X"] @ weights).argmax(1) != fresh["y"]))
    return found


class Counted(FileDesign):
    """A file that knows how often it was read from end to end."""

    reads = 0

    def blocks(self, *more: Any) -> Any:
        self.reads += 1
        return super().blocks(*more)


def _peak() -> float:
    """The most that was resident since this program began, in GB, as Linux tells."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1e6


def _sgd(X: Design, y: Any, passes: int) -> Any:
    """scikit-learn's SGDClassifier with the same loss and ridge, over the file so many times."""
    from sklearn.linear_model import SGDClassifier

    n, d = X.shape
    # Its objective is the mean loss plus alpha‖w‖²/2 on weights w = W/√d.
    model = SGDClassifier(
        loss="log_loss", alpha=RIDGE * d / n, fit_intercept=False, average=True, random_state=0
    )
    for _ in range(passes):
        for rows, block in X.blocks():
            model.partial_fit(block, y[rows], classes=np.arange(CLASSES))
    return model.coef_.T


def _against_reading(size: float, found: dict[str, Any], job: str) -> dict[str, Any]:
    ours, once = found[job], found["read"]["cpu"]
    reads = ours["reads"]
    name = "message passing" if job == "amp" else "cross-entropy"
    return {
        "name": f"{name}, {size:g} GB of float32 on disk: a pass against reading the file once",
        "ours_seconds": ours["cpu"] / reads,
        "rival_seconds": once,
        "ratio": ours["cpu"] / reads / once,
        "note": f"{ours['status']} after {ours['iterations']} iterations and {reads} reads, "
        f"{ours['seconds']:.0f} s in all ({ours['cpu']:.0f} of a core), peak {ours['peak']:.2f} GB "
        f"resident, held-out error {ours['error']:.4f}; aim: below 1 GB",
    }


def _against_rival(
    size: float, ours: dict[str, Any], rival: dict[str, Any], passes: int
) -> dict[str, Any]:
    return {
        "name": f"cross-entropy, {size:g} GB: against SGDClassifier.partial_fit at {passes} passes",
        "ours_seconds": ours["cpu"],
        "rival_seconds": rival["cpu"],
        "ratio": rival["cpu"] / ours["cpu"],
        "note": f"held-out error {ours['error']:.4f} (certified minimiser) against "
        f"{rival['error']:.4f}; peak {ours['peak']:.2f} against {rival['peak']:.2f} GB",
    }


def _dask_ml(folder: Path) -> list[dict[str, Any]]:
    """dask-ml's logistic regression has two classes only: the first against the others."""
    name = "cross-entropy, two classes: against dask-ml's LogisticRegression (lbfgs)"
    try:
        from dask_ml.linear_model import LogisticRegression
    except Exception as error:
        return [{"name": name, "note": f"not run: dask-ml is not usable here ({error})"}]
    import dask.array as da

    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    n, d = min(len(X), 40_000), X.shape[1]
    part = np.array(X[:n], dtype=np.float64)
    own, scaled = (da.from_array(a, chunks=(10_000, d)) for a in (part, part / math.sqrt(d)))
    y = (y[:n] == 0).astype(int)
    begin = time.process_time()
    model = LogisticRegression(
        C=1 / RIDGE,
        fit_intercept=False,
        solver="lbfgs",
        tol=1e-8,
        solver_kwargs={"normalize": False},  # or its ridge is on scaled features
    )
    model.fit(scaled, da.from_array(y, chunks=10_000))
    theirs = time.process_time() - begin
    begin = time.process_time()  # the ridge on the difference w of two columns is λ‖w‖²/4
    fit = fit_erm(own, y, "cross-entropy", 2 * RIDGE, tol=1e-6)
    seconds = time.process_time() - begin
    off = np.linalg.norm((fit.weights[:, 1] - fit.weights[:, 0]) - model.coef_.ravel())
    off /= np.linalg.norm(model.coef_)
    note = f"the same Dask array of {n} rows; {fit.status}, weights differ by {off:.1e}"
    return [{"name": name, "ours_seconds": seconds, "rival_seconds": theirs, "note": note}]


def growth() -> list[dict[str, Any]]:
    """Exponents of the time of an iteration in n and in d, on files of 64 to 512 MB."""
    rows = []
    for name, shapes in {
        "n": [(16_000 * m, 1000) for m in (1, 2, 4, 8)],
        "d": [(16_000, 1000 * m) for m in (1, 2, 4, 8)],
    }.items():
        times = []
        for n, d in shapes:
            with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_SCALE_DIR")) as folder:
                make_file(Path(folder), n, d)
                X, y = np.load(Path(folder) / "X.npy", mmap_mode="r"), np.load(f"{folder}/y.npy")
                times.append(_iteration(X, y))
        sizes = [n * d for n, d in shapes]
        slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
        rows.append(
            {
                "name": f"message passing from a file: growth in {name}",
                "ours_seconds": times[-1],
                "exponent": slope,
                "note": "seconds of an iteration at the largest size; aim: 1",
            }
        )
    return rows


def _iteration(X: Any, y: Any) -> float:
    """Seconds of a core for one iteration: six more of them, so that checks cancel."""
    used = []
    for count in (2, 8):
        begin = time.process_time()
        amp(X, y, noise=NOISE, tol=1e-300, max_iter=count)
        used.append(time.process_time() - begin)
    return (used[1] - used[0]) / 6


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(child(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
    else:
        for line in bench():
            print(line)
