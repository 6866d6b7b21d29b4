"""Seeded damage to a trace, for tests: cut, flipped, deleted, swapped, repeated.

python -m tests.reading.mutations COUNT FILE...     damages files again and again and loads them
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gaptrace.errors import GaptraceError
from gaptrace.reading.settings import Settings
from gaptrace.trace import Trace
from tests.reading.tables import STRESS, load_with

_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**31, 2**63, 2**64, 1.5, 1e308, -0.0, float("nan")),
    *("", "x", "12", "0x1f", "\ud800", "NaN", [], [1], {}, {"a": 1}, [[[[]]]]),
)
_JUNK = (
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\0", b"\xff", b"]}", b"/* */"),
    *(b"NaN", b"Infinity", b"inf", b"},\n  {", b'"traceEvents": [', b"\xef\xbb\xbf"),
    b"[W1129 12:00:00 a.cpp:1] log\n",
)


def mutated(text: bytes, rng: random.Random) -> bytes:
    """The text with one kind of damage."""
    kind = rng.randrange(9)
    at = rng.randrange(len(text))
    size = min(rng.choice((1, 1, 2, 8, 64, 1024)), len(text) - at)
    if kind == 0:
        return text[:at]
    if kind == 1:
        data = bytearray(text)
        for _ in range(rng.choice((1, 1, 3, 20))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(data)
    if kind == 2:
        return text[:at] + text[at + size :]
    if kind == 3:
        return text[:at] + rng.choice(_JUNK) + text[at:]
    if kind == 4:
        return text[:at] + text[at : at + size] + text[at:]
    if kind == 5:
        return text[at:]
    if kind == 6:
        data = gzip.compress(text, compresslevel=1)
        cut = rng.randrange(len(data))
        return data[:cut] if rng.random() < 0.5 else data[:cut] + b"\x55" + data[cut + 1 :]
    return _restructured(text, rng)


def _restructured(text: bytes, rng: random.Random) -> bytes:
    """Keys deleted, types swapped, events swapped for something else."""
    document = json.loads(text)
    events = document if isinstance(document, list) else document["traceEvents"]
    for _ in range(rng.choice((1, 3, 50))):
        event = rng.choice(events)
        if not isinstance(event, dict) or not event:
            continue
        target = event
        if isinstance(event.get("args"), dict) and event["args"] and rng.random() < 0.6:
            target = event["args"]
        key = rng.choice(sorted(target))
        if rng.random() < 0.4:
            del target[key]
        else:
            target[key] = rng.choice(_VALUES)
    if rng.random() < 0.1:
        events[rng.randrange(len(events))] = rng.choice(_VALUES)
    return json.dumps(document, indent=rng.choice((None, 2))).encode()


def check(text: bytes, settings: Settings) -> Trace | None:
    """Load and look at all of it; None where it was refused with a message.

    Raises anything but GaptraceError only where the loader is wrong.
    """
    try:
        trace = load_with(text, settings=settings)
    except GaptraceError as error:
        if not error.message or "\n" in error.message:
            raise AssertionError("a message is one line") from error
        return None
    rows = len(trace)
    assert rows > 0
    assert int(trace.start.min()) == 0
    assert int(trace.dur.min()) >= 0
    assert int(trace.end.min()) >= 0
    assert trace.source.events == rows + sum(trace.source.ignored.values())
    for group in (trace.gpu.rows, trace.py.rows, trace.op.rows):
        assert group.size == 0 or (group.min() >= 0 and group.max() < rows)
    assert all(isinstance(name, str) for name in trace.names)
    assert " ".join(trace.names).encode() is not None
    assert int(trace.name.max()) < len(trace.names)
    assert int(trace.lane.max()) < len(trace.lanes)
    if trace.gpu.rows.size:
        assert int(trace.gpu.device.max()) < len(trace.devices)
    for row in {0, rows // 2, rows - 1}:
        assert trace.event(row)["ph"] == "X"
    for problem in trace.problems:
        assert problem.count > 0
        assert "{" not in problem.text
    return trace


def main() -> None:
    """Damage files and load them; prints how often each ended how."""
    count, paths = int(sys.argv[1]), [Path(path) for path in sys.argv[2:]]
    rng = random.Random(20261129)
    loaded = refused = 0
    slowest = 0.0
    for n in range(count):
        data = paths[n % len(paths)].read_bytes()
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        broken = mutated(text, rng)
        begin = time.process_time()
        try:
            trace = check(broken, rng.choice((STRESS, Settings())))
        except BaseException:
            kept = Path(tempfile.gettempdir()) / f"mutation-{n}.json"
            kept.write_bytes(broken)
            print(f"mutation {n} of {paths[n % len(paths)]} is in {kept}")
            raise
        slowest = max(slowest, (time.process_time() - begin) / max(len(text), 1) * 1e6)
        loaded += trace is not None
        refused += trace is None
    print(f"{count} mutations: {loaded} loaded, {refused} refused; slowest {slowest:.2f} s/MB")


if __name__ == "__main__":
    main()
