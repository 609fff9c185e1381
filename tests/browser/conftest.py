"""A server, a browser and visitors for the tests that drive the explorer."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 300_000  # milliseconds; only ends a test that hangs


@pytest.fixture(scope="package")
def server() -> Iterator[tuple[str, psutil.Process]]:
    """The command itself on a free port, stopped as a user stops it."""
    code = "from polyceptron.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "explore", "--port", "0", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs these tests in the background would have it ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:\d+/", line)
    if found is None:
        process.kill()
        pytest.fail(f"no address from explore: {line!r} {process.communicate()[1]!r}")
    here = psutil.Process(process.pid)
    yield found.group(), here
    workers = here.children(recursive=True)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE / 1000)
    assert (process.returncode, errors) == (0, "")
    psutil.wait_procs(workers, timeout=PATIENCE / 1000)
    assert not any(worker.is_running() for worker in workers)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """A browser without network services of its own."""
    if not Path(CHROMIUM).exists():
        reason = "Chromium is not installed (apt-get install chromium)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=ARGUMENTS
        )
        yield browser
        browser.close()


def until(page: Any, condition: str, arg: Any = None) -> None:
    """Wait for it, looking ten times a second: a look at each frame has every frame drawn."""
    page.wait_for_function(condition, arg=arg, polling=100)


class Visit:
    """One visitor: a page, what it complained of, and where it went."""

    def __init__(self, context: Any, address: str, width: int = 1280) -> None:
        self.address = address
        self.page = context.new_page()
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.set_default_timeout(PATIENCE)
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("response", self._response)
        self.page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status} {response.url}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def open(self, search: str = "") -> None:
        self.page.goto(self.address + search)
        self.ready()

    def ready(self) -> None:
        """All curves of the present settings are drawn."""
        until(
            self.page,
            """document.querySelector('#status')?.innerText?.startsWith('Ready')
               && document.querySelectorAll('#learning .scatterlayer .trace').length > 0""",
        )

    def curves(self) -> list[dict[str, Any]]:
        """What the learning figure shows, as plotly knows it."""
        return self.page.evaluate(
            """document.querySelector('#learning .js-plotly-plot').data.map(
                 t => ({name: t.name, x: Array.from(t.x), y: Array.from(t.y), mode: t.mode}))"""
        )

    def wait_for_curve(self, name: str, condition: str = "true", arg: Any = None) -> dict[str, Any]:
        """The trace of that name, once `condition` on `t` (and `arg`) holds for it."""
        until(
            self.page,
            f"""([name, arg]) => {{
                const plot = document.querySelector('#learning .js-plotly-plot');
                const t = plot?.data?.find(t => t.name === name);
                return t !== undefined && ({condition});
            }}""",
            arg=[name, arg],
        )
        return next(curve for curve in self.curves() if curve["name"] == name)

    def wait_until_gone(self, name: str) -> None:
        """No trace of that name is drawn any more."""
        until(
            self.page,
            "name => !document.querySelector('#learning .js-plotly-plot').data"
            ".some(t => t.name === name)",
            arg=name,
        )

    def wait_for_setting(self, name: str, value: str) -> None:
        """The address says so, and the figures have followed."""
        until(
            self.page,
            "([name, value]) => new URLSearchParams(location.search).get(name) === value",
            arg=[name, value],
        )
        self.ready()

    def simulation(self, number: int) -> Any:
        """The place of a simulation on the page."""
        return self.page.locator("#simulations li:visible").nth(number)

    def settings(self) -> dict[str, str]:
        return {name: value[0] for name, value in parse_qs(urlsplit(self.page.url).query).items()}


@pytest.fixture(scope="package")
def regular(chromium: Any) -> Iterator[Any]:
    """A visitor who comes again and again: the browser has kept the page's scripts."""
    context = chromium.new_context()
    yield context
    context.close()


@pytest.fixture
def new_visit(chromium: Any, regular: Any, server: Any) -> Iterator[Callable[..., Visit]]:
    """Open pages, of the regular visitor or of a stranger; all are checked at the end."""
    visits: list[Visit] = []
    strangers = []

    def make(width: int = 1280, *, stranger: bool = False) -> Visit:
        if stranger:
            strangers.append(chromium.new_context())
        visits.append(Visit(strangers[-1] if stranger else regular, server[0], width))
        return visits[-1]

    yield make
    for one in visits:
        one.page.close()
    for context in strangers:
        context.close()
    assert [complaint for one in visits for complaint in one.complaints] == []
    assert [address for one in visits for address in one.elsewhere] == []


@pytest.fixture
def visit(new_visit: Callable[..., Visit]) -> Visit:
    """One visitor."""
    return new_visit()
