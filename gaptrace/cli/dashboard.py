"""`gaptrace dashboard`: browse and compare runs in a local page."""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

import click

from gaptrace.errors import GaptraceError

PORT = 8050


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port on 127.0.0.1; the next free one is taken, 0 is any.",
)
@click.option("--open", "open_", is_flag=True, help="Open the page in a browser.")
def dashboard(paths: tuple[str, ...], port: int, **values: Any) -> int:
    """Browse and compare runs in a local page.

    PATH is a trace, a run folder, a saved baseline, or a folder of them, which is watched: new runs
    appear by themselves. The page is served to this machine only, and nothing leaves it.
    """
    try:
        from gaptrace_dashboards import Library, create_app, serve
    except ModuleNotFoundError as error:
        if error.name not in ("dash", "plotly", "dash_ag_grid", "flask"):
            raise
        raise GaptraceError(
            f"the dashboard needs {error.name}", "pip install 'torch-gaptrace[dashboard]'"
        ) from error
    # A server that is told to end cleans up as one that is interrupted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    library = Library(paths)

    def opened(url: str) -> None:
        if values["open_"]:
            click.launch(url)

    try:
        serve(create_app(library), port, partial(click.echo, err=True), opened)
    finally:
        library.close()
    # The server returns only when it was interrupted.
    return 130
