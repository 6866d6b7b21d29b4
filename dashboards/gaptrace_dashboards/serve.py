"""Serve the dashboard on this machine only, on the next free port, until it is interrupted."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from dash import Dash
from werkzeug.serving import BaseWSGIServer, make_server

from gaptrace.errors import GaptraceError

HOST = "127.0.0.1"
PORTS_TRIED = 100


@dataclass(frozen=True)
class Serving:
    """A server that listens, and its address."""

    server: BaseWSGIServer
    url: str


def listen(app: Dash, port: int) -> Serving:
    """A server bound to 127.0.0.1 at `port` or the next free one; 0 is any.

    Raises:
        GaptraceError: none of a hundred ports is free.
    """
    for candidate in range(port, min(port + PORTS_TRIED, 65_536)):
        if candidate and not _free(candidate):
            continue
        try:
            server = make_server(HOST, candidate, app.server, threaded=True)
        except (OSError, SystemExit):
            continue
        return Serving(server, f"http://{HOST}:{server.server_port}/")
    raise GaptraceError(f"no free port from {port} on", "name another one with --port")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def ssh_hint(port: int) -> str | None:
    """The port-forward line for somebody who is logged in from afar; None on a local terminal."""
    if not (os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY")):
        return None
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or "USER"
    return f"ssh -N -L {port}:{HOST}:{port} {user}@{socket.gethostname()}"


def serve(app: Dash, port: int, say: Callable[[str], None], opened: Callable[[str], None]) -> None:
    """Serve until interrupted. `say` gets lines for the terminal, `opened` the address."""
    serving = listen(app, port)
    chosen = serving.server.server_port
    if port and chosen != port:
        say(f"port {port} is taken, using {chosen}")
    say(f"Dashboard: {serving.url}  (Ctrl-C stops it)")
    # No line on the terminal for every request.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    hint = ssh_hint(chosen)
    if hint is not None:
        say(f"From your own machine: {hint}  then open {serving.url}")
    opened(serving.url)
    try:
        serving.server.serve_forever()
    finally:
        serving.server.server_close()
