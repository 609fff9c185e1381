"""Progress, Ctrl-C and checkpoints: what is told and returned, and that killing costs little."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
from itertools import groupby

import numpy as np
import pytest
from programs import Program
from scipy import sparse
from watched_fits import KILLED, RUNS, slow_fit

import polyceptron as pc
from polyceptron.data import watching
from polyceptron.data.stored_designs import ArrayDesign, open_design
from polyceptron.fit import amp_classifier
from polyceptron.fit import ridge_search as ridge_choice
from polyceptron.rows import Status

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def data():
    return pc.Teacher(3).sample(240, 80, 0)


def stop_at(count, seen):
    """A callback that interrupts the fit when it is called so often."""

    def listen(now):
        seen.append(now)
        if len(seen) == count:
            raise KeyboardInterrupt

    return listen


@pytest.mark.parametrize("run", RUNS)
def test_a_fit_interrupted_again_and_again_gives_the_same(data, run, tmp_path):
    """Message passing to its tolerance, a minimiser within its certificate."""
    X, y, _ = data
    path, told = tmp_path / "fit.npz", []
    whole = RUNS[run](X, y, callback=told.append)
    assert {str(fit.status) for fit in whole} == {"ok"}
    assert told[-1].iteration == whole[-1].n_iter or run not in list(RUNS)[:5]
    for count in (1, 3, 4):
        seen = []
        parts = RUNS[run](X, y, callback=stop_at(count, seen), checkpoint=path)
        assert "interrupted" in {str(fit.status) for fit in parts}
        assert all(np.isfinite(fit.weights).all() for fit in parts)
    for _ in range(2):  # a finished fit is found again
        parts = RUNS[run](X, y, checkpoint=path)
        for found, expected in zip(parts, whole, strict=True):
            assert found.status == "ok"
            same(found, expected)
    if hasattr(parts[0], "trace"):
        assert parts[0].trace[-1] == pytest.approx(whole[0].trace[-1])


def same(found, expected):
    """To many digits, or within both certificates."""
    if hasattr(found, "trace"):
        assert found.n_iter == expected.n_iter
        np.testing.assert_allclose(found.weights, expected.weights, atol=1e-12)
    else:
        off = np.linalg.norm(found.weights - expected.weights)
        assert off <= found.distance_bound + expected.distance_bound


def test_an_interrupted_fit_returns_what_there_is(data):
    X, y, _ = data
    found = pc.amp(X, y, callback=stop_at(5, []))
    assert (found.status, found.n_iter, len(found.trace)) == ("interrupted", 5, 6)
    fit = pc.fit_erm(X, y, callback=stop_at(3, []))
    assert fit.status == "interrupted"
    assert fit.n_iter == 2
    assert 0 < fit.training_loss < np.log(3)
    assert fit.distance_bound == np.inf
    with pytest.raises(pc.ComputationFailed, match="interrupted"):
        pc.fit_erm(X, y, callback=stop_at(3, []), strict=True)


def test_work_of_many_fits_ends_with_an_interrupted_one(data, monkeypatch):
    from polyceptron.students import bayes as simulate_amp

    X, y, _ = data
    for module in (simulate_amp, amp_classifier):
        monkeypatch.setattr(
            module,
            "amp",
            lambda *given, **more: pc.amp(*given, **more | {"callback": stop_at(2, [])}),
        )
    with pytest.raises(KeyboardInterrupt):
        simulate_amp.run_amp(pc.Teacher(3), 2.0, 40, 0)
    for noise in ("auto", "gaussian:0.1"):
        model = pc.AMPClassifier(variances="shared", noise=noise)
        with pytest.warns(UserWarning, match="the fit was interrupted") as told:
            model.fit(X, y)
        assert len(told) == 1  # and no comparison is begun
        assert not model.converged_
        assert model.score(X, y) > 0.5


@pytest.mark.parametrize("loss", ["cross-entropy", "square"])
def test_a_search_stops_with_the_best_so_far(data, loss, monkeypatch):
    X, y, _ = data
    most = 3
    held_out, calls = ridge_choice.LeaveOneOut.held_out, []

    def stop(way, ridge, best):
        calls.append(ridge)
        if len(calls) == most:
            raise KeyboardInterrupt
        return held_out(way, ridge, best)

    monkeypatch.setattr(ridge_choice.LeaveOneOut, "held_out", stop)
    model = pc.ERMClassifier(loss, cv="leave-one-out")
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(X, y)
    assert model.path_["ridge"].tolist() == calls[:2]
    assert model.ridge_ in calls[:2]
    assert model.certificate_ == np.inf
    assert model.score(X, y) > 0.5
    calls.clear()
    most = 99
    model.fit(X * np.linspace(1, 2, X.shape[1]), y)
    most = len(calls)  # in the search with the other scaling
    calls.clear()
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(X * np.linspace(1, 2, X.shape[1]), y)
    assert model.certificate_ == np.inf
    calls[:] = [0] * (most - 1)  # nothing was tried
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)


def test_a_search_of_noises_stops_with_the_best_so_far(data, monkeypatch):
    X, y, _ = data
    run, calls = amp_classifier.correlated_amp, []

    def stop(*given, **more):
        calls.append(1)
        found = run(*given, **more)
        end = dataclasses.replace(found.end, status=Status.INTERRUPTED)
        return dataclasses.replace(found, end=end) if len(calls) == 3 else found

    monkeypatch.setattr(amp_classifier, "correlated_amp", stop)
    model = pc.AMPClassifier()
    with pytest.warns(UserWarning, match="the fit was interrupted"):
        model.fit(X, y)
    assert (model.variances_, len(calls), model.converged_) == ("correlated", 3, False)
    assert model.score(X, y) > 0.5


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    place = tmp_path_factory.mktemp("killed")
    np.save(place / "X.npy", data.X)
    np.save(place / "y.npy", data.y)
    return place


@pytest.mark.parametrize("kind", KILLED)
def test_a_killed_fit_loses_one_interval_at_most(folder, kind, tmp_path):
    path, told, seen, lines = tmp_path / "fit.npz", [], [], []

    def listener(heard):
        return lambda now: heard.append((now.iteration, now.max_iter))

    def steps(heard):
        """How many: a slow machine is also told between them, and before the first."""
        return len(list(groupby(told for told in heard if told[1])))

    whole = KILLED[kind](folder, callback=listener(told))
    fit = Program(slow_fit, kind, folder, path)
    for line in fit.stdout:
        lines.append(line)
        if len(lines) == 3:
            break
    fit.kill()
    rest, _ = fit.communicate()
    lines += rest.splitlines()
    assert fit.wait() == -signal.SIGKILL
    before = steps(tuple(map(int, line.split())) for line in lines)
    assert before < steps(told)  # it was killed on the way
    found = KILLED[kind](folder, checkpoint=path, callback=listener(seen))
    # With a file after every step message passing does no more than one, or tells one, twice.
    assert steps(seen) < steps(told)
    assert abs(before + steps(seen) - steps(told)) <= 1 or kind != "amp"
    assert found.status == whole.status
    same(found, whole)
    kept = [name for name in os.listdir(tmp_path) if not name.startswith(".")]
    assert kept == ["fit.npz"]  # a file that was being written has a hidden name


def test_control_c_returns_with_a_status(folder):
    fit = Program(slow_fit, "amp", folder)
    for line in fit.stdout:
        if int(line.split()[0]) >= 3:
            break
    fit.send_signal(signal.SIGINT)
    rest, errors = fit.communicate()
    assert fit.wait() == 0, errors
    assert rest.splitlines()[-1].startswith("ended interrupted")


class StopsAt(ArrayDesign):
    """An array that is interrupted at one of its reads."""

    def __init__(self, X, read):
        super().__init__(X)
        self.left = read

    def count(self, dtype):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        super().count(dtype)


@pytest.mark.parametrize(("shape", "first"), [((240, 80), 4), ((60, 80), 3)])
def test_a_square_fit_stops_with_what_there_is(shape, first):
    """Nothing before the sums over all samples have ended, uncertified weights after."""
    X, y, _ = pc.Teacher(3).sample(*shape, 0)
    whole, ends = pc.fit_erm(X, y, "square", 0.1), []
    while "ok" not in ends:
        try:
            fit = pc.fit_erm(StopsAt(X, len(ends) + 1), y, "square", 0.1)
        except KeyboardInterrupt:
            ends.append("nothing")
            continue
        ends.append(str(fit.status))
        assert np.isnan(fit.training_loss) or fit.training_loss == whole.training_loss
        if not np.isnan(fit.training_loss):
            np.testing.assert_allclose(fit.weights, whole.weights, rtol=1e-9)
            assert (fit.distance_bound == np.inf) == (fit.status == "interrupted")
    assert ends[: first - 1] == ["nothing"] * (first - 1)
    assert set(ends[first - 1 : -1]) == {"interrupted"}


def test_lines_after_two_seconds_or_at_every_step(data, capsys, monkeypatch):
    X, y, _ = data
    pc.amp(X, y, max_iter=3, verbose=1)
    assert capsys.readouterr().err == ""  # it took no two seconds
    pc.fit_erm(X, y, verbose=2)
    lines = capsys.readouterr().err.splitlines()
    assert "objective" in lines[-1]
    assert "left" in lines[-1]
    assert lines[-1].startswith("cross-entropy: iteration")
    clock = iter(np.arange(0, 1000, 0.7))
    monkeypatch.setattr(watching.time, "monotonic", lambda: float(next(clock)))
    pc.amp(X, y, max_iter=4, verbose=1)
    assert "message passing: iteration" in capsys.readouterr().err


def test_the_time_left_is_about_what_it_takes(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    seen = []
    watch = watching.Watch("x", callback=seen.append)
    for i in range(1, 30):  # a tenth each 3 seconds, so 1e-8 after 24
        now[0] += 1.0
        watch.step(i, 100, 10 ** (-i / 3), 1e-8)
    assert seen[0].seconds_left is None
    for progress in seen[1:23]:
        assert progress.seconds + progress.seconds_left == pytest.approx(24, abs=1e-6)
    assert seen[-1].seconds_left == 0


@pytest.mark.parametrize(
    ("changes", "low", "high"),
    [
        ([10 ** (-i / 3) for i in range(16)] + [1e-5] * 9, 9, 15),  # 25 s for 5 decades of 8
        ([1e-5] * 12, None, None),  # in single precision nothing falls, until it is left
        ([math.inf] + [10.0**-i for i in range(4)], 4.9, 5.1),  # weights of 0 have no distance
        ([math.inf] * 12, 88, 88),  # parts of work of which 100 are known
    ],
)
def test_iterations_that_are_allowed_are_not_the_time_left(monkeypatch, changes, low, high):
    now, seen = [0.0], []
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    watch = watching.Watch("x", callback=seen.append)
    for i, change in enumerate(changes, 1):
        now[0] += 1.0
        watch.step(i, 100, change, 1e-8 if change < math.inf else 0.0)
    left = seen[-1].seconds_left
    assert left is low is None or low <= left <= high


def test_what_is_no_checkpoint_is_a_sentence(data, tmp_path):
    X, y, _ = data
    path = tmp_path / "fit.npz"
    pc.fit_erm(X, y, checkpoint=path)
    for given in [
        lambda: pc.fit_erm(X, y, ridge=0.2, checkpoint=path),
        lambda: pc.fit_erm(X + 1e-3, y, checkpoint=path),
        lambda: pc.fit_erm(X, (y + 1) % 3, checkpoint=path),
        lambda: pc.amp(X, y, checkpoint=path),
    ]:
        with pytest.raises(pc.InvalidInput, match="is of another fit"):
            given()
    before = path.read_bytes()
    path.write_bytes(before[: len(before) // 2])
    with pytest.raises(pc.InvalidInput, match="no checkpoint, or a damaged one"):
        pc.fit_erm(X, y, checkpoint=path)
    for wrong, message in [
        ({"checkpoint": 3}, "path of a file"),
        ({"checkpoint": tmp_path}, "a folder"),
        ({"checkpoint": tmp_path / "a" / "b"}, "does not exist"),
        ({"checkpoint": tmp_path / "c", "checkpoint_every": -1}, "number of seconds"),
        ({"verbose": "much"}, "verbose must be"),
        ({"callback": 3}, "callback must be"),
    ]:
        with pytest.raises(pc.InvalidInput, match=message):
            pc.amp(X, y, **wrong)
    assert os.listdir(tmp_path) == ["fit.npz"]


@pytest.mark.parametrize(
    "run",
    [
        lambda X, y, path: pc.fit_erm(X, y, checkpoint=path),
        lambda X, y, path: pc.fit_erm(X, y, "max-margin", checkpoint=path),
        lambda X, y, path: pc.amp(X, y, checkpoint=path),
    ],
    ids=["cross-entropy", "max-margin", "amp"],
)
def test_a_changed_number_in_a_checkpoint_is_refused(data, run, tmp_path):
    """Arrays of another shape or type were an error of numpy's, deep inside the fit."""
    X, y, _ = data
    path = tmp_path / "fit.npz"
    run(X, y, path)
    with np.load(path) as file:
        saved = dict(file)
    for name, array in saved.items():
        for other in (np.zeros((2, 2, 2)), np.array(["a"]), 1 + np.zeros_like(array, dtype=float)):
            np.savez(path, **{**saved, name: other})
            with pytest.raises(pc.InvalidInput, match="no checkpoint, or a damaged one"):
                run(X, y, path)


LABELS_OF_MANY = np.arange(2500) % 3
CHANGES = {
    "rows permuted": lambda X: X[::-1],
    "columns permuted": lambda X: X[:, ::-1],
    "negated": lambda X: -X,
    "rotated": lambda X: X @ np.linalg.qr(np.ones((4, 4)) + np.eye(4))[0],
    "one entry": lambda X: X + 1e-9 * (np.arange(X.size).reshape(X.shape) == 4 * 1203),
}


def _on_disk(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def _on_dask(X, folder):
    return pytest.importorskip("dask.array").from_array(X, chunks=(700, -1))


HELD = {
    "array": lambda X, folder: np.ascontiguousarray(X),
    "single precision": lambda X, folder: X.astype(np.float32),
    "file": _on_disk,
    "sparse": lambda X, folder: sparse.csr_matrix(X),
    "dask": _on_dask,
}


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("change", CHANGES)
def test_a_checkpoint_of_another_X_is_refused(held, change, tmp_path):
    """The lengths of rows are the same in all but one of these, to ten digits in that."""
    X = np.random.default_rng(1).choice([-1.0, 1.0], (2500, 4))
    X += np.arange(4) / 8  # no column is another one's negative
    other = CHANGES[change](X)
    if held == "single precision" and change == "one entry":
        other = X + 1e-6 * (other != X)
    path = tmp_path / "fit.npz"
    hold = HELD[held]
    first = pc.fit_erm(hold(X, tmp_path), LABELS_OF_MANY, checkpoint=path)
    again = pc.fit_erm(hold(X, tmp_path), LABELS_OF_MANY, checkpoint=path)
    same(again, first)
    with pytest.raises(pc.InvalidInput, match=r"is of another fit \(not the same: X\)"):
        pc.fit_erm(hold(other, tmp_path), LABELS_OF_MANY, checkpoint=path)


def test_a_checkpoint_knows_its_labels_and_X_however_it_is_held(tmp_path):
    X = np.random.default_rng(1).standard_normal((2500, 4))
    path = tmp_path / "fit.npz"
    pc.fit_erm(X, LABELS_OF_MANY, checkpoint=path)
    for held in ("array", "file", "sparse", "dask"):
        pc.fit_erm(HELD[held](X, tmp_path), LABELS_OF_MANY, checkpoint=path)
    with pytest.raises(pc.InvalidInput, match=r"not the same: labels\)"):
        pc.fit_erm(X, LABELS_OF_MANY[::-1], checkpoint=path)


def test_data_on_disk_are_hashed_in_the_read_that_is_made_anyway(tmp_path):
    X = np.random.default_rng(1).standard_normal((2500, 4))
    plain = open_design(_on_disk(X, tmp_path))
    plain.check_entries()
    hashed = open_design(_on_disk(X, tmp_path))
    assert hashed.content == open_design(X).content
    assert hashed.passes == plain.passes == 1


@pytest.mark.parametrize("cv", [3, "leave-one-out"])
def test_the_search_for_a_ridge_shows_how_far_it_is(monkeypatch, capsys, cv):
    monkeypatch.setattr("polyceptron.data.watching.FIRST_SECONDS", 0.0)
    monkeypatch.setattr("polyceptron.data.watching.LINE_SECONDS", 0.0)
    X, y, _ = pc.Teacher(3, noise="gaussian:0.2").sample(60, 8, seed=0)
    pc.ERMClassifier(cv=cv, verbose=1, scaling="global").fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    told = [line for line in lines if line.startswith("ridges, global scaling: iteration")]
    assert len(told) >= 4
    assert "s left" in told[-1]
    pc.ERMClassifier(cv=cv).fit(X, y)
    assert not capsys.readouterr().err
