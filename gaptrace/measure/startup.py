"""What a recording costs before its first steady step: compiling, autotuning, capturing.

Everything here was measured by the recorder (`gaptrace.run/1`); nothing of it is in a trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gaptrace.measure.stats import spread
from gaptrace.reading.manifest import Manifest
from gaptrace.results.run import ModeStart

COLD, WARM, PARTLY, UNCACHED = "cold", "warm", "partly warm", "none"


@dataclass(frozen=True)
class StartUp:
    """The start of one process; times in ns, None where they were not recorded.

    ready_ns: host time of all warm-up steps up to the last that compiled or captured anything.
    first_call_ns: the first step alone. compile_ns, autotune_ns, capture_ns: the parts that the
    recorder could tell. cache: `cold`, `warm`, `partly warm` or `none` (nothing compiled).
    """

    ready_ns: int | None
    first_call_ns: int | None
    compile_ns: float | None
    autotune_ns: float | None
    capture_ns: int | None
    cache: str | None


def startup_of(manifest: Manifest) -> StartUp | None:
    """The start of a recording, None where the recorder did not time it."""
    start = manifest.run.startup
    if start is None:
        return None
    return StartUp(
        ready_ns=start.ready_ns,
        first_call_ns=start.first_call_ns,
        compile_ns=_ns(start.compile_seconds),
        autotune_ns=_ns(start.autotune_seconds),
        capture_ns=start.capture_ns,
        cache=start.cache,
    )


def _ns(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e9


def mode_start(manifests: Iterable[Manifest]) -> ModeStart | None:
    """The starts of the given repeats of one mode, None where none was timed."""
    found = [start for manifest in manifests if (start := startup_of(manifest)) is not None]
    if not found:
        return None

    def ready(*states: str | None) -> float | None:
        times = [s.ready_ns for s in found if s.cache in states and s.ready_ns is not None]
        return spread(times).median if times else None

    return ModeStart(
        cold_ns=ready(COLD),
        warm_ns=ready(WARM),
        partly_ns=ready(PARTLY),
        uncached_ns=ready(UNCACHED, None),
        compile_ns=found[0].compile_ns,
        autotune_ns=found[0].autotune_ns,
        capture_ns=found[0].capture_ns,
        starts=len(found),
    )
