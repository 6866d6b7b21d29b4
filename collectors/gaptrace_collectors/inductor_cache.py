"""Inductor's cache on disk: was this start cold or warm, and was anything built."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from gaptrace_collectors import dynamo_records

_BUILT = ("cubin", "hsaco", "so", "py")


def cache_folder() -> str | None:
    """Where Inductor keeps its cache, None where this torch does not tell."""
    for name in ("torch._inductor.runtime.cache_dir_utils", "torch._inductor.codecache"):
        try:
            module = __import__(name, fromlist=["cache_dir"])
            return str(module.cache_dir())
        except (ImportError, AttributeError):
            continue
    return None


class CacheWatch:
    """Counts what the cache gave and what was added to it, from the moment it is made."""

    def __init__(self) -> None:
        self._folder = cache_folder()
        self._files, _ = _contents(self._folder)
        self._counters = _counters()

    def section(self) -> dict[str, Any]:
        """The `cache` part of run.json's `compile` section.

        `start` is `warm` where something came from the cache and nothing was compiled, `cold` where
        nothing of use was there, `partly warm` between, `none` where nothing was looked up.
        """
        now = _counters()
        since = {name: now[name] - self._counters[name] for name in now}
        files, size = _contents(self._folder)
        new = {kind: files[kind] - self._files[kind] for kind in _BUILT if files[kind]}
        hits = since["fx_hit"] + since["aot_hit"]
        misses = since["fx_miss"] + since["fx_bypass"]
        built = sum(count for kind, count in new.items() if kind != "py")
        if not hits and not misses:
            start = "none"
        elif not misses and not built:
            start = "warm"
        else:
            # Equal layers find each other's code, so hits alone do not make a start warm.
            start = "partly warm" if hits and sum(self._files.values()) else "cold"
        return {
            "dir": self._folder,
            "start": start,
            "fx_graph": {
                "hits": since["fx_hit"],
                "misses": since["fx_miss"],
                "bypasses": since["fx_bypass"],
            },
            "aot_autograd": {"hits": since["aot_hit"], "misses": since["aot_miss"]},
            "new_files": new,
            "bytes": size,
        }


def _counters() -> Counter[str]:
    inductor, aot = (dynamo_records.counters(group) for group in ("inductor", "aot_autograd"))
    return Counter(
        {
            "fx_hit": inductor.get("fxgraph_cache_hit", 0),
            "fx_miss": inductor.get("fxgraph_cache_miss", 0),
            "fx_bypass": inductor.get("fxgraph_cache_bypass", 0),
            "aot_hit": aot.get("autograd_cache_hit", 0),
            "aot_miss": aot.get("autograd_cache_miss", 0),
        }
    )


def _contents(folder: str | None) -> tuple[Counter[str], int]:
    """Files that a compiler wrote, by kind, and the bytes of everything in the folder."""
    built: Counter[str] = Counter()
    size = 0
    for parent, _, names in os.walk(folder) if folder else ():
        built.update(kind for name in names if (kind := name.rpartition(".")[2]) in _BUILT)
        for name in names:
            try:
                size += os.stat(os.path.join(parent, name)).st_size
            except OSError:  # another process tidied it away
                continue
    return built, size
