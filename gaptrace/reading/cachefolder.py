"""Where the columns of loaded traces are kept, and for which traces that is worth the disk."""

from __future__ import annotations

import os
from pathlib import Path

# Below this a trace loads faster than a person notices; caching it only fills the disk.
CACHE_FROM_BYTES = 4_000_000


def cache_folder(path: str) -> Path | None:
    """The folder for the columns of the trace at a path, as `load` takes it; None: not worth it.

    GAPTRACE_CACHE_DIR names it, else it is `gaptrace` in the user's cache folder.
    """
    try:
        if path == "-" or os.path.getsize(path) < CACHE_FROM_BYTES:
            return None
    except OSError:
        return None
    chosen = os.environ.get("GAPTRACE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "gaptrace"
