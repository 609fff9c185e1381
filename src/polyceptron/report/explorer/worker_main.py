"""The other side of `process.Child`: read requests, do the work, write the answers.

A request is {"task": …} (theory) or {"simulate": …} (a state); each is answered by one or more
messages and then by {"end": true} or {"error": sentence}.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.report.explorer.compute import perform, simulate
from polyceptron.report.explorer.state import make_state


def answers(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages for one request; a failure is a message too."""
    try:
        if "simulate" in request:
            yield from simulate(make_state(request["simulate"]))
        else:
            yield from perform(request["task"])
        yield {"end": True}
    except (InvalidInput, ComputationFailed) as error:
        yield {"error": str(error)}
    except MemoryError:
        yield {"error": "there is not enough memory for this"}
    except Exception as error:  # a defect must not end the worker without a word
        yield {"error": f"{type(error).__name__}: {error}"}


def _listen(requests: queue.Queue[dict[str, Any]]) -> None:
    """Requests into the queue; when the parent is gone, so are we, in the middle of whatever."""
    for line in sys.stdin:
        requests.put(json.loads(line))
    os._exit(0)


def main() -> None:
    """Answer until the input ends."""
    requests: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    out, sys.stdout = sys.stdout, sys.stderr  # nothing else may write among the messages
    while True:
        for message in answers(requests.get()):
            out.write(json.dumps(message) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
