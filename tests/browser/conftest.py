"""A server, a browser and visitors for the tests that drive the explorer."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Pages of one address share a process, which reads the scripts once for all of them.
    "--process-per-site",
    # Each window would load the page of its address bar's menu, a second before any of ours;
    # the other names are Playwright's own, which these replace.
    "--disable-features=AimEnabled,WebUIOmniboxPopup,WebUIOmniboxAimPopup,"
    "SpareRendererForSitePerProcess,AvoidUnnecessaryBeforeUnloadCheckSync,"
    "DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,LensOverlay,"
    "MediaRouter,NetworkTimeServiceQuerying,OptimizationHints,PaintHolding,PreconnectToSearch,"
    "ThirdPartyStoragePartitioning",
]
PATIENCE = 300_000  # milliseconds; only ends a test that hangs


class Running(NamedTuple):
    """The command at work: the address of its page, its process, and the token of its address."""

    address: str
    process: psutil.Process
    token: str


@pytest.fixture(scope="package")
def server() -> Iterator[Running]:
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
    found = re.search(r"(http://127\.0\.0\.1:\d+/)\?token=(\S+)", line)
    if found is None:
        process.kill()
        pytest.fail(f"no address from explore: {line!r} {process.communicate()[1]!r}")
    here = psutil.Process(process.pid)
    yield Running(found.group(1), here, found.group(2))
    workers = here.children(recursive=True)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE / 1000)
    assert (process.returncode, errors) == (0, "")
    psutil.wait_procs(workers, timeout=PATIENCE / 1000)
    assert not any(worker.is_running() for worker in workers)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """A visitor's browser, without network services of its own."""
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
        # One for all: a page is known by a name of its own, not by what a browser keeps.
        yield browser.new_context()
        browser.close()


def until(page: Any, condition: str, arg: Any = None) -> None:
    """Wait for it, looking ten times a second: a look at each frame has every frame drawn."""
    page.wait_for_function(condition, arg=arg, polling=100)


# As the browser's own back button goes there.
GO = """
search => {
    history.pushState({}, '', '/' + search);
    window.dispatchEvent(new PopStateEvent('popstate'));
}
"""
# Answers of the server are late, by more than the time between two looks, while `late`.
LATE = """
const ask = window.fetch;
window.fetch = async (...given) => {
    const answer = await ask(...given);
    if (window.late) await new Promise((done) => setTimeout(done, 800));
    return answer;
};
"""


def _of_new_settings(response: Any) -> bool:
    """Whether it is the page's answer with figures of settings that have just changed."""
    asked = response.request.post_data_json or {}
    return "settings.data" in asked.get("changedPropIds", []) and response.status == 200


class Visit:
    """One visitor: a page, what it complained of, and where it went."""

    def __init__(self, context: Any, address: str) -> None:
        self.address = address
        self.page = context.new_page()
        self.page.add_init_script(LATE)
        self.resize(1280)
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

    def resize(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": 900})

    def open(self, search: str = "") -> None:
        """Load the page, or lead the page that is open there."""
        if self.page.url.startswith(self.address):
            with self.page.expect_response(_of_new_settings) as answer:
                self.page.evaluate(GO, search)
            answer.value.finished()
        else:
            self.page.goto(self.address + search)
        self.ready()

    def ready(self) -> None:
        """All curves of the present settings are drawn."""
        until(
            self.page,
            """document.querySelector('#status')?.innerText?.startsWith('Ready')
               && document.querySelector('#learning-plot').className === 'plot'
               && document.querySelectorAll('#learning .scatterlayer .trace').length > 0""",
        )

    def leave(self) -> None:
        """As it was before: no simulation is kept, nothing has been said against the page."""
        for name in ("Cancel", "Remove"):
            for button in self.page.get_by_role("button", name=name, exact=True).all():
                if button.is_visible():
                    button.click()
        until(self.page, "!document.querySelector('#simulations li:not([hidden])')")
        assert (self.complaints, self.elsewhere) == ([], [])

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
def regular(chromium: Any, server: Running) -> Visit:
    """A visitor who stays: the page is loaded once, on a narrow screen, where its settings fold."""
    one = Visit(chromium, server.address)
    one.resize(400)
    # The first curves, which every server computes; the browser keeps what the token gave it.
    one.open(f"?token={server.token}&estimators=square")
    assert not one.page.locator("#settings-fold").evaluate("fold => fold.open")
    return one


@pytest.fixture
def visit(regular: Visit) -> Iterator[Visit]:
    """The visitor who stays, on a wide screen; what a test leaves behind is taken away."""
    regular.resize(1280)
    yield regular
    regular.leave()


@pytest.fixture
def stranger(chromium: Any, regular: Visit) -> Iterator[Visit]:
    """Another page of the same browser, which has seen nothing yet."""
    one = Visit(chromium, regular.address)
    yield one
    one.page.close()
    assert (one.complaints, one.elsewhere) == ([], [])
