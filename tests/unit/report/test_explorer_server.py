"""The explorer's server: this machine only, one sentence for what is wrong, nothing from afar."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.server import check_port, make_app, require_dash
from polyceptron.report.explorer.sessions import Sessions
from polyceptron.report.explorer.state import NAMES, State


class NoTheory:
    """A queue whose work is never done: what a page shows while it waits."""

    def request(self, visitor: str, tasks: Any) -> list[str]:
        return [str(task) for task in tasks]

    def answer(self, key: str) -> Any:
        from polyceptron.report.explorer.theory_queue import Answer

        return Answer()

    def wait(self, keys: Any, timeout: float) -> bool:
        return False

    def forget(self, visitor: str) -> None: ...

    def close(self) -> None: ...


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    sessions = Sessions(NoTheory())  # type: ignore[arg-type]
    yield make_app(sessions).server.test_client()
    sessions.close()


def get(client: Any, path: str, host: str = "127.0.0.1:8050") -> Any:
    return client.get(path, headers={"Host": host})


def sync(client: Any, search: Any, values: dict[str, Any] | None = None, by: str = "url") -> Any:
    """Call the page's first callback as a browser does; the JSON that comes back."""
    dependencies = get(client, "/_dash-dependencies").get_json()
    one = next(d for d in dependencies if "state.data" in d["output"] and "search" in d["output"])
    given = {"url.search": search}
    from polyceptron.report.explorer.layout import shown_values

    for name, value in {**shown_values(State()), **(values or {})}.items():
        given[f"control-{name}.value"] = value
    outputs = [
        {"id": part.rsplit(".", 1)[0], "property": part.rsplit(".", 1)[1]}
        for part in one["output"].strip(".").split("...")
    ]
    body = {
        "output": one["output"],
        "outputs": outputs,
        "inputs": [{**i, "value": given[f"{i['id']}.{i['property']}"]} for i in one["inputs"]],
        "changedPropIds": ["url.search" if by == "url" else f"control-{by}.value"],
        "state": [],
    }
    answer = client.post("/_dash-update-component", json=body, headers={"Host": "127.0.0.1:8050"})
    assert answer.status_code == 200
    return answer.get_json()["response"]


def test_the_page_is_served_here_and_to_no_other_name(client: Any) -> None:
    page = get(client, "/")
    assert page.status_code == 200
    assert '<html lang="en">' in page.text
    assert "<title>polyceptron explorer</title>" in page.text
    assert get(client, "/", host="evil.example:8050").status_code == 403
    assert get(client, "/_dash-layout", host="evil.example").status_code == 403


def test_nothing_is_fetched_from_elsewhere(client: Any) -> None:
    addresses = re.findall(r'(?:src|href)="([^"]+)"', get(client, "/").text)
    assert addresses
    assert all(address.startswith("/") for address in addresses)
    style = get(client, next(a for a in addresses if "explorer.css" in a)).text
    assert "url(" not in style
    assert "@import" not in style


def test_every_setting_has_its_control_on_the_page(client: Any) -> None:
    layout = json.dumps(get(client, "/_dash-layout").get_json())
    for name in NAMES:
        assert f'"control-{name}"' in layout


def test_a_link_sets_the_controls_and_a_wild_one_gets_a_sentence(client: Any) -> None:
    good = sync(client, "?k=5&prior=gaussian&ridge=10")
    assert good["control-k"]["value"] == 5
    assert good["control-ridge"]["value"] == 1.0
    assert good["message"]["children"] == ""
    wild = sync(client, "?k=<script>alert(1)</script>")
    assert "cannot be shown" in wild["message"]["children"]
    assert wild["state"]["data"]["settings"] == State().as_dict()


def test_a_control_writes_the_link_or_gets_a_sentence(client: Any) -> None:
    changed = sync(client, "", {"k": 4}, by="k")
    assert "k=4" in changed["url"]["search"]
    wrong = sync(client, "", {"k": None}, by="k")
    assert "whole number from 2 to 50" in wrong["message"]["children"]
    assert "state" not in wrong
    alpha = sync(client, "", {"high": 1.5}, by="high")
    assert alpha["control-alpha"]["value"] == 1.5
    assert alpha["control-alpha"]["max"] == 1.5


def test_huge_requests_are_refused(client: Any) -> None:
    answer = client.post(
        "/_dash-update-component",
        data=b"x" * 1_000_000,
        headers={"Host": "127.0.0.1:8050", "Content-Type": "application/json"},
    )
    assert answer.status_code == 413


def test_the_port_is_checked() -> None:
    assert check_port(0) == 0
    for port in (-1, 65536, True, "80"):
        with pytest.raises(InvalidInput, match="from 0 to 65535"):
            check_port(port)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        with pytest.raises(InvalidInput, match="in use"):
            check_port(busy.getsockname()[1])


def test_a_busy_port_ends_the_command_with_one_sentence() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        code = "from polyceptron.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, "explore", "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == [
        f"polyceptron: port {port} is in use: choose another with --port, or 0 for any free one"
    ]


def test_without_dash_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dash", None)
    with pytest.raises(InvalidInput, match=r"polyceptron\[web\]"):
        require_dash()


def test_the_preview_is_a_picture_of_the_curves() -> None:
    from base64 import b64decode

    from polyceptron.model import BayesOptimal, Teacher
    from polyceptron.report.explorer.preview import preview
    from polyceptron.theory import curve_rows

    address = preview({"bayes": curve_rows(Teacher(3), BayesOptimal(), [1.0, 2.0])})
    kind, picture = address.split(",", 1)
    assert kind == "data:image/svg+xml;base64"
    assert b"<svg" in b64decode(picture)
