"""The explorer's server: this machine only, one sentence for what is wrong, nothing from afar."""

from __future__ import annotations

import json
import logging
import math
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from programs import shell as command
from typer.testing import CliRunner

from polyceptron.cli import app as shell
from polyceptron.cli.report_commands import address_of, listen, require_dash
from polyceptron.errors import InvalidInput
from polyceptron.report.explorer import server
from polyceptron.report.explorer.controls import Choice
from polyceptron.report.explorer.layout import shown_values
from polyceptron.report.explorer.request_guard import CALLBACK
from polyceptron.report.explorer.server import make_app
from polyceptron.report.explorer.sessions import Sessions
from polyceptron.report.explorer.settings import NAMES, SETTINGS, PageSettings
from polyceptron.report.explorer.work_queue import Job

HERE = "127.0.0.1:8050"
FROM_HERE = {"Host": HERE, "Origin": f"http://{HERE}", "Sec-Fetch-Site": "same-origin"}


class NoTheory:
    """A queue whose work is never done: what a page shows while it waits."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def request(self, page: str, tasks: Any) -> None:
        self.asked += tasks

    def answer(self, task: Any) -> Any:
        return Job(task)

    def wait(self, tasks: Any, timeout: float) -> bool:
        return False

    def forget(self, page: str) -> None: ...

    def close(self) -> None: ...


class Browser:
    """What a browser does with the page: its cookie, its token, its callbacks."""

    def __init__(self, sessions: Sessions, **options: Any) -> None:
        self.sessions = sessions
        self.app = make_app(sessions, **options)
        self.http = self.app.server.test_client()
        self.get("/")
        layout = self.get("/_dash-layout").get_json()
        self.token = next(
            one["props"]["data"]
            for one in layout["props"]["children"]
            if one["props"].get("id") == "page-token"
        )
        self.declared = self.get("/_dash-dependencies").get_json()

    def get(self, path: str, host: str = HERE, **headers: str) -> Any:
        return self.http.get(path, headers={"Host": host, **headers})

    def body(self, words: str, given: dict[str, Any], changed: list[str]) -> dict[str, Any]:
        """The body of the callback whose outputs include `words`."""
        one = next(
            d for d in self.declared if words in d["output"] and not d["clientside_function"]
        )
        given = {"page-token.data": self.token, **given}
        outputs: Any = [
            dict(zip(("id", "property"), part.rsplit(".", 1), strict=True))
            for part in one["output"].strip(".").split("...")
        ]
        if not one["output"].startswith(".."):
            outputs = outputs[0]
        return {
            "output": one["output"],
            "outputs": outputs,
            "changedPropIds": changed,
            **{
                part: [{**i, "value": given.get(f"{i['id']}.{i['property']}")} for i in one[part]]
                for part in ("inputs", "state")
            },
        }

    def post(self, body: Any, **headers: str) -> Any:
        return self.http.post(CALLBACK, json=body, headers={**FROM_HERE, **headers})

    def sync(self, search: Any, values: dict[str, Any] | None = None, by: str = "url") -> Any:
        """Call the page's first callback; the JSON that comes back."""
        controls = {**shown_values(PageSettings()), **(values or {})}
        given = {f"control-{name}.value": value for name, value in controls.items()}
        changed = ["url.search" if by == "url" else f"control-{by}.value"]
        answer = self.post(self.body("settings.data", {"url.search": search, **given}, changed))
        assert answer.status_code == 200, answer.text
        return answer.get_json()["response"]


@pytest.fixture(scope="module")
def client() -> Iterator[Browser]:
    sessions = Sessions(NoTheory())  # type: ignore[arg-type]
    yield Browser(sessions)
    sessions.close()


def test_the_page_is_served_here_and_to_no_other_name(client: Browser) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert '<html lang="en">' in page.text
    assert "<title>polyceptron explorer</title>" in page.text
    assert client.get("/", host="evil.example:8050").status_code == 403
    assert client.get("/_dash-layout", host="evil.example").status_code == 403


def test_nothing_is_fetched_from_elsewhere(client: Browser) -> None:
    addresses = re.findall(r'(?:src|href)="([^"]+)"', client.get("/").text)
    assert addresses
    assert all(address.startswith("/") for address in addresses)
    style = client.get(next(a for a in addresses if "explorer.css" in a)).text
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.parametrize(
    "path",
    ["dash/nothing.js", "nothing/x.js", "flask/x.js", "dash/dcc", "dash/../x.js", "dash/%00.js"],
)
def test_a_script_that_there_is_not_is_not_found(client: Browser, path: str) -> None:
    answer = client.get(f"/_dash-component-suites/{path}")
    assert (answer.status_code, answer.text) == (404, "there is nothing at this address\n")


def test_no_script_that_dash_has_registered_is_an_error(client: Browser) -> None:
    """Some are registered without being shipped (source maps): they are not found either."""
    app = client.app
    known = [f"{package}/{path}" for package, some in app.registered_paths.items() for path in some]
    assert len(known) > 10
    found = {path: client.get(f"/_dash-component-suites/{path}").status_code for path in known}
    assert set(found.values()) <= {200, 404}, found
    assert found["dash/dcc/dash_core_components.js"] == 200
    for path in ("dcc/async-mathjax.js.map", "dcc/async-mathjax.v4_4_1m12.js.map"):
        assert client.get(f"/_dash-component-suites/dash/{path}").status_code == 404


def test_every_setting_has_its_control_on_the_page(client: Browser) -> None:
    layout = json.dumps(client.get("/_dash-layout").get_json())
    assert '"Link for this machine"' in layout
    for name in NAMES:
        assert f'"control-{name}"' in layout


def test_a_link_sets_the_controls_and_a_wild_one_gets_a_sentence(client: Browser) -> None:
    good = client.sync("?k=5&prior=gaussian&ridge=10")
    assert good["control-k"]["value"] == 5
    assert good["control-ridge"]["value"] == 1.0
    assert good["message"]["children"] == ""
    assert good["field-strength"]["hidden"] is True
    wild = client.sync("?k=<script>alert(1)</script>")
    assert "cannot be shown" in wild["message"]["children"]
    assert wild["settings"]["data"]["settings"] == PageSettings().as_dict()


def test_a_control_writes_the_link_or_gets_a_sentence(client: Browser) -> None:
    changed = client.sync("", {"k": 4}, by="k")
    assert "k=4" in changed["url"]["search"]
    wrong = client.sync("", {"k": None}, by="k")
    assert "whole number from 2 to 50" in wrong["message"]["children"]
    assert "settings" not in wrong
    alpha = client.sync("", {"high": 1.5, "range_rule": "set"}, by="high")
    assert alpha["control-alpha"]["value"] == 1.5
    noise = client.sync("", {"noise": "softmax"}, by="noise")  # begins at its own number
    assert noise["control-strength"]["value"] == pytest.approx(math.log10(2))
    assert noise["strength-value"]["children"] == "slope 2"
    assert noise["field-strength"]["hidden"] is False


def test_every_control_writes_its_setting(client: Browser) -> None:
    """Whatever has an effect beside the others; the rest stays hidden and out of the link."""
    seen = set()
    for name, kind in SETTINGS.items():
        if isinstance(kind, Choice):
            value: Any = [*kind.words][-1] if not kind.several else [[*kind.words][-1]]
        else:
            value = kind.low if kind.slider != "log" else -1.0
        if name in ("low", "high"):
            value = 0.5 if name == "low" else 3.5
        with_it = {"low": {"range_rule": "set"}, "high": {"range_rule": "set"}}
        answer = client.sync("", {name: value, **with_it.get(name, {})}, by=name)
        assert answer["message"]["children"] == "", name
        link = parse_qs(urlsplit(answer["url"]["search"]).query)
        hidden = answer[f"field-{name}"]["hidden"]
        assert (name in link) == (not hidden), name
        seen |= set() if hidden else {name}
    assert seen >= {"k", "prior", "noise", "features", "estimators", "ridge", "shown", "scale"}


def test_huge_requests_are_refused(client: Browser) -> None:
    headers = {**FROM_HERE, "Content-Type": "application/json"}
    answer = client.http.post(CALLBACK, data=b"x" * 1_000_000, headers=headers)
    assert answer.status_code == 413


def test_what_has_no_effect_is_hidden(client: Browser) -> None:
    plain = client.sync("")
    hidden = {name for name in NAMES if plain[f"field-{name}"]["hidden"]}
    assert hidden >= {"low", "high", "l1", "strength", "separation", "share4", "intercept"}
    assert not hidden & {"share1", "share3", "ridge", "prior", "k"}
    own = client.sync("?high=7&ridge_rule=optimal&penalty=ridge")
    assert [own[f"field-{name}"]["hidden"] for name in ("high", "ridge")] == [False, True]
    net = client.sync("?penalty=elastic-net")
    assert [net[f"field-{name}"]["hidden"] for name in ("l1", "ridge_rule")] == [False, True]
    mixture = client.sync("?model=mixture&k=2")
    assert mixture["field-prior"]["hidden"]
    assert not mixture["field-separation"]["hidden"]
    assert mixture["share2-value"]["children"] == "50 %"
    assert mixture["landscape-title"]["children"] == "Confusion matrix"
    shown = [one["value"] for one in mixture["control-shown"]["options"]]
    assert "recall" in shown
    assert "overlaps" not in shown


def test_loading_starts_no_computation_whatever_the_address_says() -> None:
    theory = NoTheory()
    sessions = Sessions(theory)  # type: ignore[arg-type]
    browser = Browser(sessions)
    run = "?k=5&run=simulation:amp"
    for path in ("/", "/_dash-layout", "/_dash-dependencies", "/" + run, "/_dash-layout" + run):
        referrer = {"Referer": f"http://{HERE}/{run}"}
        assert browser.get(path, **referrer).status_code == 200
        assert browser.http.get(path, headers={"Host": HERE, **referrer}).status_code == 200
    assert theory.asked == []
    assert len(sessions._all) == 0
    sessions.close()


def test_a_post_needs_origin_site_and_token_each_alone(client: Browser) -> None:
    good = client.body("settings.data", {"url.search": ""}, ["url.search"])
    assert client.post(good).status_code == 200

    def refused(answer: Any) -> None:
        assert (answer.status_code, answer.mimetype) == (403, "text/plain")
        assert len(answer.text.splitlines()) == 1

    refused(client.post(good, Origin="http://127.0.0.1:9999"))
    refused(client.post(good, Origin="null"))
    without = {name: value for name, value in FROM_HERE.items() if name != "Origin"}
    refused(client.http.post(CALLBACK, json=good, headers=without))
    for site in ("cross-site", "same-site"):
        refused(client.post(good, **{"Sec-Fetch-Site": site}))
    for token in (None, "", 7, "a-b-c", client.token[:-1] + "x", "x" + client.token[1:]):
        refused(client.post(client.body("settings.data", {"page-token.data": token}, [])))


def test_another_page_may_lead_here_by_a_press_alone(client: Browser) -> None:
    led = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}
    document = {**led, "Sec-Fetch-Dest": "document"}
    pressed = client.get("/?k=4", **document, **{"Sec-Fetch-User": "?1"})
    assert "react-entry-point" in pressed.text
    aside = client.get("/?k=4&x=<script>", **document)
    assert "Another page has sent you here" in aside.text
    assert 'href="/?k=4&amp;x=&lt;script&gt;"' in aside.text
    assert "react-entry-point" not in aside.text
    for kind in ("iframe", "image", "script", "empty"):
        assert client.get("/", **led, **{"Sec-Fetch-Dest": kind}).status_code == 403
    assert client.get("/_dash-layout", **document).status_code == 403
    assert client.get("/").headers["X-Frame-Options"] == "DENY"


def test_for_other_machines_the_address_holds_a_key() -> None:
    sessions = Sessions(NoTheory())  # type: ignore[arg-type]
    http = make_app(sessions, "192.0.2.7", "secret key").server.test_client()
    there = {"Host": "192.0.2.7:8050"}
    for path in ("/", "/?token=guess", "/_dash-layout", "/?token="):
        assert http.get(path, headers=there).status_code == 403
    opened = http.get("/?k=4&token=secret+key", headers=there)
    assert (opened.status_code, opened.headers["Location"]) == (303, "/?k=4")
    assert "secret" not in opened.headers["Set-Cookie"]
    assert http.get("/?k=4", headers=there).status_code == 200
    assert http.get("/", headers={"Host": "evil.example"}).status_code == 403
    layout = http.get("/_dash-layout", headers=there).text
    assert '"Link with its key"' in layout
    assert '"secret key"' in layout
    sessions.close()


def test_on_this_machine_too_the_address_holds_a_key() -> None:
    """Any account of the machine can send every header that a page of ours sends."""
    sessions = Sessions(NoTheory())  # type: ignore[arg-type]
    browser = Browser.__new__(Browser)
    browser.http = make_app(sessions, key="secret key").server.test_client()
    for path in ("/", "/_dash-layout", "/_dash-dependencies"):
        assert browser.get(path).status_code == 403
    assert browser.http.post(CALLBACK, json={}, headers=FROM_HERE).status_code == 403
    assert browser.get("/?token=secret+key").status_code == 303
    layout = browser.get("/_dash-layout").text
    assert '"Link for this machine"' in layout
    assert '"secret key"' in layout
    sessions.close()


ODD_STORES = [
    ("drawn.data", [[], [1], "text", 3, True, 1.5]),
    ("settings.data", [[], "text", 3, True]),
    ("simulations-changed.data", [[], "text", {}, True, 1.5]),
]


@pytest.mark.parametrize(("name", "values"), ODD_STORES)
def test_a_store_of_another_type_is_a_bad_request(
    client: Browser, name: str, values: list[Any]
) -> None:
    """A press of a button with odd data was an error of the server, with a traceback."""
    for value in values:
        for words in ("simulation-message", "python.children", "download.data"):
            body = client.body(words, {name: value, "simulate.n_clicks": 1}, ["simulate.n_clicks"])
            if "simulation-message" not in words:
                body["changedPropIds"] = []
            if name not in str(body["inputs"] + body["state"]).replace("', 'property': '", "."):
                continue
            answer = client.post(body)
            assert (answer.status_code, answer.mimetype) == (400, "text/plain"), (words, value)


def test_outputs_of_another_form_are_a_bad_request(client: Browser) -> None:
    """A list for the one output of a download was an error of the server, with a traceback."""
    one = client.body("download.data", {}, ["get-csv.n_clicks"])
    assert client.post({**one, "outputs": [one["outputs"]]}).status_code == 400
    several = client.body("settings.data", {}, ["url.search"])
    assert client.post({**several, "outputs": several["outputs"][0]}).status_code == 400


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """An explorer without work that listens, with short times."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 20)
    monkeypatch.setattr(server, "SECONDS_OF_CONNECTION", 2.0)
    sessions = Sessions(NoTheory())  # type: ignore[arg-type]
    with listen(0) as here:
        running = server.BoundedServer("127.0.0.1", here, make_app(sessions).server)
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield here.getsockname()
        running.shutdown()
        thread.join()
    sessions.close()


def answer_of(address: tuple[str, int]) -> str:
    """What the page answers to a visitor who comes now."""
    with socket.create_connection(address, timeout=30) as visitor:
        visitor.sendall(b"GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        return visitor.recv(100).decode().splitlines()[0]


@pytest.mark.process
def test_a_hundred_connections_that_say_nothing_do_not_keep_a_visitor_out(
    served: tuple[str, int],
) -> None:
    silent = [socket.create_connection(served, timeout=30) for _ in range(100)]
    assert answer_of(served).endswith("200 OK")
    assert silent[0].recv(1) == b""  # the oldest have given way
    for connection in silent:
        connection.close()


@pytest.mark.process
def test_what_is_no_request_does_not_reach_the_terminal(
    served: tuple[str, int], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A program without the key could fill the terminal, or the disk that holds the log."""
    for nonsense in (b"\x16\x03\x01" + b"A" * 60_000, b"GET\r\n", b"GET / HTTP/9.9\r\n"):
        with socket.create_connection(served, timeout=30) as visitor:
            visitor.sendall(nonsense + b"\r\n")
            visitor.recv(1000)
    assert answer_of(served).endswith("200 OK")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "AAAA" not in capfd.readouterr().err


@pytest.mark.process
def test_a_request_that_comes_letter_by_letter_is_given_up(served: tuple[str, int]) -> None:
    begin = time.monotonic()
    with socket.create_connection(served, timeout=30) as slow, suppress(OSError):
        slow.sendall(b"GET / HTTP/1.0\r\nX: ")
        while time.monotonic() - begin < 60:
            slow.sendall(b"a")
            time.sleep(0.05)
    assert 1 < time.monotonic() - begin < 30
    assert answer_of(served).endswith("200 OK")


def test_of_clusters_what_works_is_simulated(client: Browser) -> None:
    clusters = client.sync("", {"model": "mixture", "simulation": "amp"}, by="model")
    assert clusters["control-simulation"]["value"] == "cross-entropy"
    assert clusters["method"]["children"] == "Method: cross-entropy"
    offered = [option["value"] for option in clusters["control-simulation"]["options"]]
    assert "amp" not in offered
    back = client.sync("", {"model": "argmax", "simulation": "cross-entropy"}, by="model")
    assert "amp" in [option["value"] for option in back["control-simulation"]["options"]]


def test_after_a_refused_value_the_figures_are_called_old(client: Browser) -> None:
    wrong = client.sync("", {"k": "60"}, by="k")
    assert wrong["message"]["children"] == (
        "The number of classes k must be a whole number from 2 to 50, got 60. The figures still "
        "show the previous settings."
    )
    assert wrong["refused"]["data"] is True
    assert client.sync("", {"k": "6"}, by="k")["refused"]["data"] is False
    wild = client.sync("?k=60")  # the defaults are shown instead
    assert wild["refused"]["data"] is False


def test_the_port_and_the_host_are_checked() -> None:
    for port in ("-1", "65536"):
        assert CliRunner().invoke(shell, ["explore", "--port", port]).exit_code == 2
    with listen(0) as here:
        assert here.getsockname()[0] == "127.0.0.1"
        port = here.getsockname()[1]
        assert address_of(here, "127.0.0.1", None) == f"http://127.0.0.1:{port}/"
        assert address_of(here, "127.0.0.1", "k") == f"http://127.0.0.1:{port}/?token=k"
        with pytest.raises(InvalidInput, match="in use"):
            listen(port)
    for host in ("192.0.2.7", "no such name", "\ud800", "a" * 300):
        with pytest.raises(InvalidInput, match="is not an address or a name of this machine"):
            listen(0, host)


@pytest.mark.process
def test_a_busy_port_ends_the_command_with_one_sentence() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        done = command("explore", "--no-browser", "--port", port)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == [
        f"polyceptron: port {port} is in use: choose another with --port, or 0 for any free one"
    ]


def test_without_dash_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dash", None)
    with pytest.raises(InvalidInput, match=r"polyceptron\[web\]"):
        require_dash()


@pytest.mark.process
@pytest.mark.parametrize("arguments", [[], ["--no-token"], ["--host", "127.0.0.1"]])
def test_the_address_is_printed_before_anything_heavy_is_imported(arguments: list[str]) -> None:
    code = (
        "import sys, types\n"
        "def serve(*_):\n"
        "    heavy = {'dash', 'numpy', 'scipy', 'polyceptron.report'}\n"
        "    print(sorted(heavy & set(before)))\n"
        "import typer\n"
        "echo = typer.echo\n"
        "def spy(text):\n"
        "    global before\n"
        "    before = list(sys.modules)\n"
        "    echo(text)\n"
        "typer.echo = spy\n"
        "from polyceptron.cli import main\n"
        "sys.modules['polyceptron.report.explorer.server'] = types.SimpleNamespace(serve=serve)\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, "explore", "--port", "0", "--no-browser", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    address, heavy = done.stdout.splitlines()
    key = "" if arguments == ["--no-token"] else r"\?token=[\w-]{22}"
    assert re.fullmatch(rf"open http://127\.0\.0\.1:\d+/{key} \(stop with Ctrl-C\)", address)
    assert heavy == "[]"
    assert done.stderr.startswith("warning: other machines") == ("--host" in arguments)


def test_without_a_token_other_machines_are_not_served() -> None:
    asked = CliRunner().invoke(shell, ["explore", "--no-token", "--host", "127.0.0.1"])
    assert isinstance(asked.exception, InvalidInput)
    assert "--no-token works on this machine only" in str(asked.exception)


def test_the_browser_is_opened_unless_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    import webbrowser

    from typer.testing import CliRunner

    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(server, "serve", lambda here, host, key, ready: ready())
    monkeypatch.setenv("DISPLAY", ":0")
    assert CliRunner().invoke(shell, ["explore", "--port", "0", "--no-browser"]).exit_code == 0
    assert opened == []
    result = CliRunner().invoke(shell, ["explore", "--port", "0"])
    assert opened == [result.stdout.split()[1]]
