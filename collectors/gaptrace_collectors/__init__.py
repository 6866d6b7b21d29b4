"""The recorder: runs inside a user's process, needs the standard library and torch only.

`python -m gaptrace_collectors` records a script's decode step in several modes, one process each.
The run folder it leaves is described in collectors/README.md.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("torch-gaptrace")
except PackageNotFoundError:  # a copy of this folder alone on the path
    __version__ = "not installed"

RUN_SCHEMA = "gaptrace.run/1"
COLLECT_SCHEMA = "gaptrace.collect/1"
