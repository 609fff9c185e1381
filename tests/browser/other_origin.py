"""A page of another origin, another port of this machine, tries to make the explorer work for it.

It shares the visitor's browser, and with it the cookies. Whatever it loads, posts or frames is
refused; the visitor's results stay; and the same attack without the guard is seen to get through.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
from tests.browser.conftest import PATIENCE, until
from werkzeug.serving import make_server

from polyceptron.report.explorer import work_queue, worker_process
from polyceptron.report.explorer.request_guard import CALLBACK, RequestGuard
from polyceptron.report.explorer.server import make_app
from polyceptron.report.explorer.sessions import Sessions
from polyceptron.report.explorer.work_queue import WorkQueue

SIMULATION = "&run=simulation:amp,dimension:40,places:2,runs:1"
OWN = "/?estimators=square&points=4&k=2&prior=gaussian" + SIMULATION
RUN = "/?estimators=square&points=4&k=3&prior=gaussian" + SIMULATION
ATTACK = """
<!DOCTYPE html><title>elsewhere</title><body><a id="pressed" href="TARGETRUN">a link</a>
<form id="form" method="post" enctype="text/plain" action="TARGETCALLBACK" target="hole">
  <input name='{"output":"x"' value='"}'></form>
<script>
const target = 'TARGET', paths = ['/', 'RUN', '/_dash-layout', '/_dash-layout?k=9', 'CALLBACK'];
const wait = (element, place) => new Promise((done) => {
    element.onload = element.onerror = done;
    setTimeout(done, 3000);
    (place || document.body).append(element);
});
const make = (kind, values) => Object.assign(document.createElement(kind), values);
async function attack(tried) {
    for (const path of tried || paths) {
        const address = target + path;
        await wait(make('img', {src: address}));
        await wait(make('script', {src: address}));
        await wait(make('link', {rel: 'stylesheet', href: address}), document.head);
        await wait(make('iframe', {src: address}));
        const body = JSON.stringify({output: 'drawn.data', inputs: [], state: []});
        const json = {'Content-Type': 'application/json'};
        for (const options of [
            {mode: 'no-cors', credentials: 'include'},
            {mode: 'no-cors', credentials: 'include', referrerPolicy: 'unsafe-url'},
            {mode: 'no-cors', credentials: 'include', method: 'POST', body},
            {mode: 'cors', credentials: 'include', method: 'POST', body, headers: json},
            {mode: 'cors', credentials: 'include'},
        ]) await fetch(address, options).catch(() => undefined);
        navigator.sendBeacon(address, body);
    }
    history.replaceState(null, '', '/?k=9&high=3');  // a referrer that looks like a link of ours
    for (let i = 0; i < 5; i++) await wait(make('img', {src: target + '/_dash-layout?' + i}));
    const hole = make('iframe', {name: 'hole'});
    await wait(hole);
    const answered = new Promise((done) => { hole.onload = done; setTimeout(done, 3000); });
    document.querySelector('#form').submit();
    await answered;
    return 'done';
}
if (window.location.search === '?go') window.location = target + 'RUN';
</script></body>
"""


class Inside:
    """A worker without a process: here it matters only who asks."""

    alive = True

    def work(self, task: Any, *limits: object) -> Iterator[Any]:
        yield from worker_process.answers(task)

    def kill(self) -> None:
        self.alive = False


class Watched(WorkQueue):
    """Notes which pages ask for theory."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: set[str] = set()

    def request(self, page: str, tasks: Any) -> list[str]:
        self.pages.add(page)
        return super().request(page, tasks)


class Served(NamedTuple):
    """An explorer of this process: its address, what it knows, and what it was asked from afar."""

    address: str
    sessions: Sessions
    theory: Watched
    from_elsewhere: list[tuple[str, str, str]]  # method, path, status


@pytest.fixture
def explorer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Served]]:
    monkeypatch.setattr(work_queue, "WorkerProcess", Inside)
    stops: list[Callable[[], object]] = []

    def start() -> Served:
        theory = Watched()
        sessions = Sessions(theory)
        app = make_app(sessions).server
        seen: list[tuple[str, str, str]] = []

        def noted(environ: Any, answer: Any) -> Any:
            def note(status: str, headers: Any, *rest: Any) -> Any:
                if environ.get("HTTP_SEC_FETCH_SITE") not in ("same-origin", "none"):
                    seen.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], status[:3]))
                return answer(status, headers, *rest)

            return app(environ, note)

        server = make_server("127.0.0.1", 0, noted, threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stops.extend([server.shutdown, sessions.close])
        return Served(f"http://127.0.0.1:{server.server_port}", sessions, theory, seen)

    yield start
    for stop in stops:
        stop()


@pytest.fixture
def elsewhere() -> Iterator[Callable[[str], str]]:
    """Serve the attack on a target from a port of its own."""
    servers = []

    def start(target: str) -> str:
        page = ATTACK.replace("TARGET", target).replace("CALLBACK", CALLBACK).replace("RUN", RUN)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(page.encode())

            def log_message(self, *_: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def open_page(context: Any, address: str) -> Any:
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    until(page, "document.querySelector('#status')?.innerText?.startsWith('Ready')")
    return page


def attacked(context: Any, address: str, paths: str = "") -> Any:
    """The page elsewhere, after all it tried."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    assert page.evaluate(f"attack({paths})") == "done"
    return page


def test_nothing_starts_for_another_page_but_by_a_press_and_the_visitor_keeps_everything(
    chromium: Any, explorer: Any, elsewhere: Any
) -> None:
    here = explorer()
    mine = open_page(chromium, here.address + OWN)
    mine.locator("#slot-0").get_by_text("2 of 2, finished").wait_for()
    (kept,) = next(iter(here.sessions._all.values())).simulations
    pages = set(here.theory.pages)
    assert len(pages) == len(here.sessions._all) == 1
    assert here.from_elsewhere == []

    there = elsewhere(here.address)
    page = attacked(chromium, there)
    assert len(here.from_elsewhere) > 40
    assert {method for method, _, _ in here.from_elsewhere} >= {"GET", "POST"}
    assert {status for _, _, status in here.from_elsewhere} == {"403"}
    assert here.theory.pages == pages
    assert len(here.sessions._all) == 1
    assert next(iter(here.sessions._all.values())).simulations == [kept]
    mine.get_by_role("button", name="Remove").click()  # my page still works
    until(mine, "document.querySelector('#slot-0').hidden")

    # Sent here without a press: a page that computes nothing, and a link to press.
    here.from_elsewhere.clear()
    page.goto(there + "/?go")
    link_here = page.get_by_text("Open the explorer with its settings")
    link_here.wait_for()
    assert here.theory.pages == pages
    assert len(here.sessions._all) == 1
    link_here.click()
    page.wait_for_url(here.address + RUN, wait_until="commit")
    page.locator("#react-entry-point").wait_for(state="attached")  # the explorer, not yet drawn

    # A link that the visitor presses opens with its simulations at once.
    page.goto(there)
    page.locator("#pressed").click()
    page.locator("#slot-0").get_by_text("2 of 2, finished").wait_for()
    assert here.theory.pages > pages
    for one in (mine, page):
        one.close()


def test_the_attack_is_real_without_the_guard_it_gets_through(
    chromium: Any, explorer: Any, elsewhere: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestGuard, "_check", lambda self: None)
    here = explorer()
    page = attacked(chromium, elsewhere(here.address), "['/_dash-layout']")
    assert "200" in {status for _, _, status in here.from_elsewhere}
    page.close()
