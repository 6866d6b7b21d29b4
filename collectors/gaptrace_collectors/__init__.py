"""The recorder: runs inside a user's process, needs the standard library and torch only.

`python -m gaptrace_collectors` records a script's decode step in several modes, one process each.
The run folder it leaves is described in collectors/README.md.
"""

from __future__ import annotations

__version__ = "0.1.0"

RUN_SCHEMA = "gaptrace.run/1"
COLLECT_SCHEMA = "gaptrace.collect/1"
