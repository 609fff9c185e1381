"""Which requests the explorer answers: those of its own page, on this machine.

Computations start by POST alone, and a POST must come from this page itself: its `Origin` is ours,
the browser sends `Sec-Fetch-Site: same-origin`, and its body holds the token that was put into the
page. A page elsewhere, another port of this machine included, can have none of the three. Whatever
is refused gets a line of text.
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


def refuse(status: int, reason: str) -> NoReturn:
    """Answer with this HTTP status and a line of plain text."""
    abort(Response(f"{reason}\n", status, mimetype="text/plain"))


class RequestGuard:
    """Checks every request before anything else sees it.

    `hosts` are the names by which this server may be called (empty: any), `key` is what the
    address must hold when other machines can reach it, `callbacks` what Dash knows of its own.
    """

    def __init__(
        self, hosts: Sequence[str], key: str | None, callbacks: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self.hosts, self.key, self.callbacks = tuple(hosts), key, callbacks
        self._secret = secrets.token_bytes(32)

    def attach(self, server: Flask) -> None:
        """Let every request of this server pass by here."""
        server.before_request(self._check)
        server.after_request(self._after)

    def token(self, page: str) -> str:
        """page-signature: what a page must show to be listened to."""
        return f"{page}-{hmac.new(self._secret, page.encode(), 'sha256').hexdigest()}"

    def read_token(self, token: object) -> str:
        """The page of a token of ours, or an error message."""
        page = token.partition("-")[0] if isinstance(token, str) else ""
        if not hmac.compare_digest(self.token(page).encode(), str(token).encode()):
            raise InvalidInput("this page has lost its session: reload it")
        return page

    def _check(self) -> Response | None:
        name = request.host.rpartition(":")[0] if ":" in request.host else request.host
        if self.hosts and name not in self.hosts:
            refuse(403, "this server is not called by that name")
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        if site not in ("same-origin", "none"):
            return self._from_elsewhere()
        if (opened := self._check_key()) is not None:
            return opened
        if request.method == "POST":
            self._check_post()
        elif request.method not in ("GET", "HEAD"):
            refuse(405, "only GET and POST are answered here")
        return None

    def _from_elsewhere(self) -> Response | None:
        """Another page may lead a visitor here, by a link that the visitor presses, and no more."""
        fetched = [request.headers.get(f"Sec-Fetch-{what}") for what in ("Mode", "Dest")]
        if request.method != "GET" or fetched != ["navigate", "document"] or request.path != "/":
            refuse(403, "other pages may not use this server")
        if request.headers.get("Sec-Fetch-User") == "?1":
            return self._check_key()
        address = html.escape(request.full_path.removesuffix("?"), quote=True)
        return Response(ASIDE.format(address=address), mimetype="text/html")

    def _check_key(self) -> Response | None:
        """With a key: it is shown once in the address, then kept as a cookie."""
        if self.key is None:
            return None
        # Cookies do not know of ports: two explorers on one machine must not share one.
        port = request.host.rpartition(":")[2]
        cookie = f"polyceptron-key-{port if port.isascii() and port.isdigit() else 80}"
        proof = hmac.new(self._secret, self.key.encode(), "sha256").hexdigest()
        pairs = parse_qsl(request.query_string.decode("ascii", "replace"), keep_blank_values=True)
        shown = dict(pairs).get("token", "")
        if request.method == "GET" and hmac.compare_digest(shown.encode(), self.key.encode()):
            rest = urlencode([pair for pair in pairs if pair[0] != "token"], safe=",:")
            moved = Response("", 303, {"Location": "/?" + rest if rest else "/"})
            moved.set_cookie(cookie, proof, httponly=True, samesite="Lax")
            return moved
        if not hmac.compare_digest(request.cookies.get(cookie, "").encode(), proof.encode()):
            refuse(403, "open the address that polyceptron explore printed, with its token")
        return None

    def _check_post(self) -> None:
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
        if response.mimetype in ("text/html", "application/json"):
            response.headers["Cache-Control"] = "no-store"
        response.headers.update(HEADERS)
        return response


def check_body(body: Any, callbacks: Mapping[str, Mapping[str, Any]]) -> Any:
    """The token in the body of a callback that is exactly as Dash declared it, or a refusal."""
    output = body.get("output") if isinstance(body, dict) else None
    if not isinstance(output, str) or output not in callbacks:
        refuse(400, "the request names nothing that this page does")
    values, wanted = dict[str, Any](), {"outputs": output.strip(".").split("...")}
    for part in ("inputs", "state"):
        wanted[part] = [f"{one['id']}.{one['property']}" for one in callbacks[output][part]]
    for part, names in wanted.items():
        given = body.get(part, [])
        given = [given] if part == "outputs" and not isinstance(given, list) else given
        if not isinstance(given, list) or [_name(one) for one in given] != names:
            refuse(400, f"the {part} of the request are not those of this page")
        values |= {name: one.get("value") for name, one in zip(names, given, strict=True)}
    changed = body.get("changedPropIds")
    if not isinstance(changed, list) or any(one not in wanted["inputs"] for one in changed):
        refuse(400, "the request reports a change of something that this page has not")
    return values.get(f"{TOKEN_FIELD['id']}.{TOKEN_FIELD['property']}")


def _name(one: Any) -> str | None:
    """What a part of a body is about: element.property."""
    parts: list[Any] = [one.get("id"), one.get("property")] if isinstance(one, dict) else [None]
    return ".".join(parts) if all(isinstance(part, str) for part in parts) else None
