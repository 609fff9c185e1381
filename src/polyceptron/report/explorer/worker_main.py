"""The other side of `worker_process`: read requests, do the work, write the answers.

A request is {"task": …} (theory) or {"simulate": …} (settings); each is answered by one or more
messages and then by {"end": true} or {"error": sentence}. The memory that a worker may take is
bounded by the operating system, where it has such a bound (Linux).
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.report.explorer.curve_tasks import perform
from polyceptron.report.explorer.settings import make_settings
from polyceptron.report.explorer.simulation_runs import simulate

MEMORY_LIMIT = 800_000_000  # bytes that a worker may hold


def answers(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages for one request; a failure is a message too."""
    try:
        if "simulate" in request:
            yield from simulate(make_settings(request["simulate"]))
        else:
            yield from perform(request["task"])
        yield {"end": True}
    except (InvalidInput, ComputationFailed) as error:
        yield {"error": str(error)}
    except MemoryError:
        words = f"this needs more memory than the {MEMORY_LIMIT / 1e9:.1f} GB allowed here"
        yield {"error": words, "memory": True}
    except Exception as error:  # a defect must not end the worker without a word
        yield {"error": f"{type(error).__name__}: {error}"}


def _listen(requests: queue.Queue[dict[str, Any]]) -> None:
    """Requests into the queue; when the parent is gone, so are we, in the middle of whatever."""
    for line in sys.stdin:
        requests.put(json.loads(line))
    os._exit(0)


def limit_memory(limit: int = MEMORY_LIMIT) -> None:
    """Ask the operating system to refuse this process more than `limit` bytes."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def main() -> None:
    """Answer until the input ends; what is asked for most is loaded before the first question."""
    limit_memory()
    requests: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    for name in ("theory.curve", "theory.separability"):
        import_module(f"polyceptron.{name}")
    out, sys.stdout = sys.stdout, sys.stderr  # nothing else may write among the messages
    while True:
        for message in answers(requests.get()):
            out.write(json.dumps(message) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
