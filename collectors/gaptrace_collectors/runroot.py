"""The folder of one run while it is recorded: what was there before, what is half-done, the index.

Nothing half-done ever looks whole, and an older run is replaced only by something recorded.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from gaptrace_collectors import folder as files
from gaptrace_collectors.failing import CollectError

if TYPE_CHECKING:
    from gaptrace_collectors.options import Request
    from gaptrace_collectors.points import Point

INDEX = "collect.json"
# `--cache-dir run`: the Inductor cache travels with the run folder.
CACHE_IN_RUN = "run"
CACHE_FOLDER = "inductor_cache"


class RunRoot:
    """The run folder of a request."""

    def __init__(self, request: Request) -> None:
        self.path = os.path.join(request.out, request.name)
        self._request = request
        self._aside: str | None = None
        self.cache_dir = request.cache_dir and os.path.abspath(request.cache_dir)
        if request.cache_dir == CACHE_IN_RUN:
            self.cache_dir = os.path.abspath(os.path.join(self.path, CACHE_FOLDER))
        elif self.cache_dir:
            _must_be_writable(self.cache_dir)

    def cell(self, point: Point, mode: str, repeat: int) -> str:
        """The folder of one mode and repeat."""
        return os.path.join(self.path, point.folder, mode, str(repeat))

    def relative(self, path: str) -> str:
        """A path as it stands in the index."""
        return os.path.relpath(path, self.path).replace(os.sep, "/")

    def set_aside(self) -> None:
        """Move an older run folder away under --force; it comes back if nothing replaces it.

        Raises CollectError where there is one, and it is not to be replaced.
        """
        if not os.path.lexists(self.path):
            return
        if not self._request.force:
            raise CollectError(
                f"{self.path} is already there", "use --force to replace it, or --name another"
            )
        aside = os.path.join(self._request.out, f".{self._request.name}.replaced")
        _remove(aside)
        os.replace(self.path, aside)
        self._aside = aside
        kept = os.path.join(aside, CACHE_FOLDER)
        if self._request.cache_dir == CACHE_IN_RUN and os.path.isdir(kept):
            # The recordings are replaced; what was compiled for them is still true.
            os.makedirs(self.path)
            os.replace(kept, os.path.join(self.path, CACHE_FOLDER))

    def settle(self, index: dict[str, Any]) -> bool:
        """Remove what is half-done and write the index; False where the older run came back."""
        # A script that fails at once, by a slip in its arguments say, replaces no older recording.
        kept = ("ok", "mode_failed") + (() if self._aside else ("script_failed",))
        recorded = any(cell["path"] and cell["status"] in kept for cell in index["cells"])
        self._sweep()
        if recorded:
            files.write_json(os.path.join(self.path, INDEX), index)
            if self._aside:
                _remove(self._aside)
            return True
        if self._aside:
            self._put_back(self._aside)
            return False
        if os.path.isdir(self.path) and not os.listdir(self.path):
            os.rmdir(self.path)
        return True

    def _sweep(self) -> None:
        for parent, folders, _ in os.walk(self.path):
            for name in [name for name in folders if name.endswith(".partial")]:
                shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
                folders.remove(name)
        for parent, _, _ in os.walk(self.path, topdown=False):
            outside_cache = self.cache_dir is None or not parent.startswith(self.cache_dir)
            if outside_cache and parent != self.path and not os.listdir(parent):
                os.rmdir(parent)

    def _put_back(self, aside: str) -> None:
        cache = os.path.join(self.path, CACHE_FOLDER)
        if os.path.isdir(cache):
            os.replace(cache, os.path.join(aside, CACHE_FOLDER))
        shutil.rmtree(self.path, ignore_errors=True)
        os.replace(aside, self.path)


def _remove(path: str) -> None:
    """Remove a folder, or a link to one without what it leads to."""
    if os.path.islink(path):
        os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _must_be_writable(folder: str) -> None:
    """Raise CollectError where Inductor could not keep its cache there."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise CollectError(
            f"--cache-dir {folder} cannot be made: {error.strerror}", "name a folder of your own"
        ) from error
    if not os.access(folder, os.W_OK):
        raise CollectError(f"--cache-dir {folder} cannot be written", "name a folder of your own")
