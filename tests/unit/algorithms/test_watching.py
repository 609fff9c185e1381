"""Progress, Ctrl-C and checkpoints: what is told and returned, and that killing costs little."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.algorithms import watching

RUNS = {
    "amp": lambda X, y, **more: [pc.amp(X, y, noise="gaussian:0.1", **more)],
    "full variances": lambda X, y, **more: [pc.amp(X, y, variances="full", **more)],
    "amp_erm": lambda X, y, **more: [pc.amp_erm(X, y, "cross-entropy", 0.5, **more)],
    "cross-entropy": lambda X, y, **more: [pc.fit_erm(X, y, ridge=1e-3, **more)],
    "a path": lambda X, y, **more: pc.fit_erm_path(
        X, y, "cross-entropy", [1.0, 0.3, 0.1, 0.03, 0.01, 0.003], solver="newton", **more
    ),
}


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
def test_a_fit_interrupted_again_and_again_gives_the_same_to_the_last_bit(data, run, tmp_path):
    X, y, _ = data
    path, told = tmp_path / "fit.npz", []
    whole = RUNS[run](X, y, callback=told.append)
    assert {str(fit.status) for fit in whole} == {"ok"}
    assert told[-1].iteration == whole[-1].n_iter or run == "a path"
    for count in (1, 3, 4):
        seen = []
        parts = RUNS[run](X, y, callback=stop_at(count, seen), checkpoint=path)
        assert "interrupted" in {str(fit.status) for fit in parts}
        assert all(np.isfinite(fit.weights).all() for fit in parts)
    for _ in range(2):  # a finished fit is found again
        parts = RUNS[run](X, y, checkpoint=path)
        for found, expected in zip(parts, whole, strict=True):
            assert found.status == "ok"
            assert found.n_iter == expected.n_iter
            np.testing.assert_array_equal(found.weights, expected.weights)
    if hasattr(parts[0], "trace"):
        assert parts[0].trace == whole[0].trace


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
    from polyceptron.algorithms import leave_one_out
    from polyceptron.experiments import simulate_amp

    X, y, _ = data
    for module in (simulate_amp, leave_one_out):
        monkeypatch.setattr(
            module,
            "amp",
            lambda *given, **more: pc.amp(*given, **more | {"callback": stop_at(2, [])}),
        )
    with pytest.raises(KeyboardInterrupt):
        simulate_amp.run_amp(pc.Teacher(3), 2.0, 40, 0)
    with pytest.raises(KeyboardInterrupt):
        pc.AMPClassifier(variances="shared", compare=False).fit(X, y)
    fixed = pc.AMPClassifier(variances="shared", noise="gaussian:0.1", compare=False)
    with pytest.warns(UserWarning, match="did not converge"):
        fixed.fit(X, y)


PROGRAM = """
import sys, time
import numpy as np
import polyceptron as pc

X, y, _ = pc.Teacher(3).sample(240, 80, 0)
if sys.argv[1] == "amp":
    run = lambda **more: pc.amp(X, y, noise="gaussian:0.1", **more)
else:
    run = lambda **more: pc.fit_erm(X, y, ridge=1e-3, **more)

def listen(now):
    print(now.iteration, flush=True)
    time.sleep(0.05)

more = {"checkpoint": sys.argv[2], "checkpoint_every": 0} if sys.argv[2:] else {}
found = run(callback=listen, **more)
print("ended", found.status, found.n_iter, flush=True)
"""


def begin(*arguments: object) -> subprocess.Popen[str]:
    paths = str(Path(pc.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        # A shell that runs these tests in the background would have it ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize(("kind", "kills"), [("amp", 2), ("erm", 1)])
def test_a_killed_fit_loses_one_interval_at_most(data, kind, kills, tmp_path):
    X, y, _ = data
    fit = RUNS["amp" if kind == "amp" else "cross-entropy"]
    whole, path, told = fit(X, y)[0], tmp_path / "fit.npz", 0
    for _ in range(kills):
        process, goal = begin(kind, path), told + 2
        assert process.stdout is not None
        for line in process.stdout:
            told = int(line)
            if told >= goal:
                break
        process.kill()
        told = int((process.stdout.read().splitlines() or [told])[-1])
        assert process.wait() == -signal.SIGKILL
    seen = []
    found = fit(X, y, checkpoint=path, callback=seen.append)[0]
    # Each iteration is kept before it is told, and one more may have been kept since.
    first = seen[0].iteration - (kind == "amp")
    assert told <= first <= told + 1
    assert found.n_iter == whole.n_iter
    np.testing.assert_array_equal(found.weights, whole.weights)
    kept = [name for name in os.listdir(tmp_path) if not name.startswith(".")]
    assert kept == ["fit.npz"]  # a file that was being written has a hidden name


def test_control_c_returns_with_a_status():
    process = begin("amp")
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 3:
            break
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait() == 0
    assert rest.splitlines()[-1].startswith("ended interrupted")


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
    for loss, ridge in (("square", 0.1), ("max-margin", 0.1), ("cross-entropy", 0.0)):
        with pytest.raises(pc.InvalidInput, match="a checkpoint keeps fits by Newton's method"):
            pc.fit_erm(X, y, loss, ridge, checkpoint=tmp_path / "other.npz")
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
