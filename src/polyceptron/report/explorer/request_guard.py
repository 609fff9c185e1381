"""Which requests the explorer answers: those of its own page, by who has the address with its key.

Computations start by POST alone, and a POST must come from this page itself: its `Origin` is ours,
the browser sends `Sec-Fetch-Site: same-origin`, and its body holds the token that was put into the
page. A page elsewhere, another port of this machine included, can have none of the three. A program
of another account of this machine can claim all of them: it does not know the key in the address.
Whatever is refused gets a line of text.
"""

from __future__ import annotations

import hmac
import html
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlencode

from flask import Flask, Response, abort, request

from polyceptron.errors import InvalidInput

HOST = "127.0.0.1"
LOOPBACK = (HOST, "localhost", "[::1]")
CALLBACK = "/_dash-update-component"
TOKEN_FIELD = {"id": "page-token", "property": "data"}
HEADERS = {
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
ASIDE = (  # a link that another page opened by itself: nothing is computed until it is pressed
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>polyceptron explorer</title>'
    "</head><body><p>Another page has sent you here. "
    '<a href="{address}">Open the explorer with its settings</a>.</p></body></html>'
)
# What the page keeps in the browser and sends back: null before there is anything.
TYPES_OF_STORES: dict[str, type] = {
    "drawn.data": dict,
    "settings.data": dict,
    "simulations-changed.data": int,
}

Declared = Mapping[str, Mapping[str, Any]]
"""The callbacks of the page as Dash has declared them, by their outputs."""

Body = dict[str, Any]
"""A request of the page, as JSON."""


def refuse(status: int, reason: str) -> NoReturn:
    """Answer with this HTTP status and a line of plain text."""
    abort(Response(f"{reason}\n", status, mimetype="text/plain"))


class RequestGuard:
    """Checks every request before anything else sees it.

    Parameters
    ----------
    hosts : sequence of str
        The names by which this server may be called; empty for any.
    key : str or None
        What the address must hold; None where nobody is asked for it.
    callbacks : mapping
        What Dash has declared.
    """

    def __init__(self, hosts: Sequence[str], key: str | None, callbacks: Declared) -> None:
        self.hosts = tuple(hosts)
        self.key = key
        self.callbacks = callbacks
        self._secret = secrets.token_bytes(32)

    def attach(self, server: Flask) -> None:
        """Let every request of this server pass by here."""
        server.before_request(self._check)
        server.after_request(self._after)

    def token(self, page: str) -> str:
        """Return page-signature: what a page must show to be listened to."""
        return f"{page}-{self._sign(page)}"

    def read_token(self, token: object) -> str:
        """Return the page of a token of ours, or raise InvalidInput."""
        page = ""
        if isinstance(token, str):
            page = token.partition("-")[0]
        if not _same_text(self.token(page), str(token)):
            raise InvalidInput("this page has lost its session: reload it")
        return page

    def _sign(self, text: str) -> str:
        """Return a signature that only this server can make."""
        return hmac.new(self._secret, text.encode(), "sha256").hexdigest()

    def _check(self) -> Response | None:
        """Refuse what is not ours; return an answer that needs no page, or None to go on."""
        if self.hosts and _host_name() not in self.hosts:
            refuse(403, "this server is not called by that name")
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        if site not in ("same-origin", "none"):
            return self._from_elsewhere()
        opened = self._check_key()
        if opened is not None:
            return opened
        if request.method == "POST":
            self._check_post()
        elif request.method not in ("GET", "HEAD"):
            refuse(405, "only GET and POST are answered here")
        return None

    def _from_elsewhere(self) -> Response | None:
        """Let another page lead a visitor here by a link that the visitor presses, and no more."""
        headers = [request.headers.get(f"Sec-Fetch-{what}") for what in ("Mode", "Dest")]
        if request.method != "GET" or headers != ["navigate", "document"] or request.path != "/":
            refuse(403, "other pages may not use this server")
        if request.headers.get("Sec-Fetch-User") == "?1":
            return self._check_key()
        address = html.escape(request.full_path.removesuffix("?"), quote=True)
        return Response(ASIDE.format(address=address), mimetype="text/html")

    def _check_key(self) -> Response | None:
        """Ask for the key: it is shown once in the address, then kept as a cookie."""
        if self.key is None:
            return None
        cookie = _cookie_name()
        proof = self._sign(self.key)
        query = request.query_string.decode("ascii", "replace")
        pairs = parse_qsl(query, keep_blank_values=True)
        shown = dict(pairs).get("token", "")
        if request.method == "GET" and _same_text(shown, self.key):
            moved = Response("", 303, {"Location": _address_without_key(pairs)})
            moved.set_cookie(cookie, proof, httponly=True, samesite="Lax")
            return moved
        if not _same_text(request.cookies.get(cookie, ""), proof):
            refuse(403, "open the address that polyceptron explore printed, with its token")
        return None

    def _check_post(self) -> None:
        """Refuse a POST that is not a callback of this page."""
        if request.path != CALLBACK or set(request.args) - {"endId"}:
            refuse(405, "nothing is to be sent to this address")
        if request.headers.get("Origin") != f"{request.scheme}://{request.host}":
            refuse(403, "computations start from this server's own page only")
        if request.mimetype != "application/json":
            refuse(400, "a request of this page is JSON")
        try:
            body = json.loads(request.get_data(), parse_constant=int)  # an error for NaN
            json.dumps(body, ensure_ascii=False).encode()  # text that cannot be written is no text
        except (ValueError, RecursionError):
            refuse(400, "the request is not JSON")
        try:
            self.read_token(check_body(body, self.callbacks))
        except InvalidInput as error:
            refuse(403, str(error))

    @staticmethod
    def _after(response: Response) -> Response:
        """Add the headers that keep other pages out."""
        if response.mimetype in ("text/html", "application/json"):
            response.headers["Cache-Control"] = "no-store"
        response.headers.update(HEADERS)
        return response


def _same_text(given: str, wanted: str) -> bool:
    """Compare two texts in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode(errors="replace"))


def _host_name() -> str:
    """Return the name by which this server was called, without the port."""
    if ":" in request.host:
        return request.host.rpartition(":")[0]
    return request.host


def _cookie_name() -> str:
    """Return the name of the cookie: two explorers on one machine must not share one."""
    port = request.host.rpartition(":")[2]
    if not (port.isascii() and port.isdigit()):
        port = "80"
    return f"polyceptron-key-{port}"


def _address_without_key(pairs: Sequence[tuple[str, str]]) -> str:
    """Return the address of the page with its settings, without the key."""
    settings = urlencode([pair for pair in pairs if pair[0] != "token"], safe=",:")
    if settings:
        return f"/?{settings}"
    return "/"


def check_body(body: object, callbacks: Declared) -> object:
    """Return the token in the body of a callback that is as Dash declared it; refuse any other."""
    output = None
    if isinstance(body, dict):
        output = body.get("output")
    if not isinstance(body, dict) or not isinstance(output, str) or output not in callbacks:
        refuse(400, "the request names nothing that this page does")
    declared = callbacks[output]
    has_several = output.startswith("..")  # Dash then sends a list, and else one part
    if isinstance(body.get("outputs"), list) != has_several:
        refuse(400, "the outputs of the request are not those of this page")
    _values_of(body, "outputs", output.strip(".").split("..."))
    inputs = _declared_names(declared["inputs"])
    values = _values_of(body, "inputs", inputs)
    values |= _values_of(body, "state", _declared_names(declared["state"]))
    changed = body.get("changedPropIds")
    if not isinstance(changed, list) or any(name not in inputs for name in changed):
        refuse(400, "the request reports a change of something that this page has not")
    for name, kind in TYPES_OF_STORES.items():
        value = values.get(name)
        if value is not None and not _is_of(kind, value):
            refuse(400, f"{name} of the request is not what this page keeps there")
    return values.get(f"{TOKEN_FIELD['id']}.{TOKEN_FIELD['property']}")


def _is_of(kind: type, value: object) -> bool:
    """Return whether a value is of this type; True and False are no numbers."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _declared_names(parts: Sequence[Mapping[str, str]]) -> list[str]:
    """Return element.property of each declared input or state."""
    return [f"{part['id']}.{part['property']}" for part in parts]


def _values_of(body: Body, part: str, names: list[str]) -> Body:
    """Return the values in a part of a body, which must be about these names; refuse any other."""
    given = body.get(part, [])
    if part == "outputs" and not isinstance(given, list):
        given = [given]
    if not isinstance(given, list) or [_name(item) for item in given] != names:
        refuse(400, f"the {part} of the request are not those of this page")
    return {name: item.get("value") for name, item in zip(names, given, strict=True)}


def _name(item: object) -> str | None:
    """Return what a part of a body is about, element.property; None for what is no part."""
    if not isinstance(item, dict):
        return None
    element = item.get("id")
    what = item.get("property")
    if not isinstance(element, str) or not isinstance(what, str):
        return None
    return f"{element}.{what}"
