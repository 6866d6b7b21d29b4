"""The dashboard of gaptrace: browse and compare runs in a local page."""

from __future__ import annotations

from gaptrace_dashboards.app import create_app
from gaptrace_dashboards.library import Library
from gaptrace_dashboards.serve import serve

__all__ = ["Library", "create_app", "serve"]
