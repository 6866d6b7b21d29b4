"""What keeps the dashboard to one person on one machine: headers, and who may ask."""

from __future__ import annotations

from collections.abc import Sequence

from flask import Flask, Request, Response, request
from werkzeug.exceptions import Forbidden

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})


def policy(script_hashes: Sequence[str]) -> str:
    """The content security policy: scripts of this server and Dash's own few lines by hash.

    Style attributes are allowed because plotly and AG Grid set them; nothing else is inline, and
    nothing may be fetched from or sent to another host.
    """
    hashes = " ".join(script_hashes)
    return (
        f"default-src 'none'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
        "worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def secure(server: Flask, script_hashes: Sequence[str]) -> None:
    """Refuse requests that name another host, and set the headers of every answer."""
    content_policy = policy(script_hashes)

    def refuse_strangers() -> None:
        # A page elsewhere that makes its name resolve to 127.0.0.1 still sends its own name.
        if not local_host(request):
            raise Forbidden("this dashboard answers its own machine only")

    def add_headers(response: Response) -> Response:
        response.headers.setdefault("Content-Security-Policy", content_policy)
        response.headers["X-Content-Type-Options"] = "nosniff"
        # Our own pages say to us where they are (the first layout needs it), and to nobody else.
        response.headers["Referrer-Policy"] = "same-origin"
        response.headers["X-Frame-Options"] = "DENY"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        return response

    server.before_request(refuse_strangers)
    server.after_request(add_headers)


def local_host(asked: Request) -> bool:
    """Whether a request names this machine, whatever the port (ssh may forward another one).

    A request that says where it comes from must come from this machine's own pages.
    """
    if not _loopback(asked.host):
        return False
    origin = asked.headers.get("Origin")
    return origin is None or _loopback(origin.partition("://")[2])


def _loopback(host: str) -> bool:
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name.lower() in LOOPBACK
