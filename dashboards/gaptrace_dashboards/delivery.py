"""How the page and its scripts reach the browser: the document, what it loads, what is kept."""

from __future__ import annotations

import hashlib
from functools import partial
from importlib import resources

from flask import Flask, Response, request

from gaptrace.render.html import asset_text, stylesheet

ASSETS = str(resources.files("gaptrace_dashboards") / "assets")
SHARED_SCRIPTS = ("theme.js", "page.js", "timeline.js", "tables.js")
# The code of the table proper: dash-ag-grid asks for it only once a table is on the page, which is
# late for the list of runs.
GRID_CODE = "/_dash-component-suites/dash_ag_grid/async-community.js"
A_YEAR = "public, max-age=31536000, immutable"
# Theme first, so that the first paint has it; the timeline before the script that mounts it.
DOCUMENT = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{%title%}</title>
<link rel="icon" href="data:,">
<script src="SHARED/theme.js"></script>
<link rel="stylesheet" href="SHARED/report.css">
{%css%}
</head>
<body>
{%app_entry%}
<footer>{%config%}<script async src="GRID"></script>
<script src="SHARED/page.js"></script><script src="SHARED/timeline.js"></script>
<script src="SHARED/tables.js"></script>
{%scripts%}{%renderer%}</footer>
</body>
</html>"""


def document() -> str:
    """The document with a version in the address of each of our files outside Dash's care."""
    text = DOCUMENT.replace("GRID", GRID_CODE)
    for name, body in _shared().items():
        text = text.replace(f"SHARED/{name}", f"/shared/{name}?v={_version(body)}")
    return text


def add_shared_files(server: Flask) -> None:
    """Serve the report's stylesheet and scripts, and let the browser keep what has a version."""

    def answer(body: str, mimetype: str) -> Response:
        return Response(body, mimetype=mimetype)

    for name, body in _shared().items():
        mimetype = "text/css" if name.endswith(".css") else "text/javascript"
        server.add_url_rule(f"/shared/{name}", f"gt_{name}", partial(answer, body, mimetype))
    server.after_request(_keep)


def _keep(response: Response) -> Response:
    # An address with the file's version in it (`m` is Dash's word for it) never changes its answer.
    if request.path.startswith(("/assets/", "/shared/")):
        # What is no file here is answered with the document, which is not to be kept.
        found = response.status_code == 200 and response.mimetype != "text/html"
        versioned = found and ("v" in request.args or "m" in request.args)
        response.headers["Cache-Control"] = A_YEAR if versioned else "no-cache"
    return response


def _shared() -> dict[str, str]:
    return {"report.css": stylesheet(), **{name: asset_text(name) for name in SHARED_SCRIPTS}}


def _version(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:10]
