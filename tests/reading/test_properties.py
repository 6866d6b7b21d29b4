"""Whatever the events and the layout: a load gives what json.loads gives."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaptrace.reading.settings import Settings
from tests.reading.tables import assert_loads, load_with
from tests.reading.test_layouts import LAYOUTS

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        '},\n  {\n    "ph"',
        '"},{"ph":"X"}',
        "\\",
        '"',
        "]",
        '],"traceEvents":[',
        "aten::mm",
        "\x00\x1f",
    ]
)
SMALL = st.integers(-(2**31), 2**63 - 1) | st.integers(0, 9)
JSON = st.recursive(
    st.none() | st.booleans() | SMALL | TEXT | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ARGS = st.fixed_dictionaries(
    {},
    optional={
        "correlation": SMALL,
        "External id": SMALL,
        "external id": SMALL,
        "device": st.integers(0, 8),
        "stream": SMALL,
        "graph id": SMALL,
        "graph node id": SMALL,
        "bytes": SMALL,
        "Python id": SMALL,
        "Python parent id": st.none() | SMALL,
        "Record function id": SMALL,
        "Input Dims": st.lists(st.lists(st.integers(0, 99), max_size=3), max_size=3),
        "Input type": st.lists(TEXT, max_size=3),
        "Concrete Inputs": st.lists(TEXT, max_size=3),
        "other": JSON,
    },
)
# Kineto's times: microseconds with three decimals, based or absolute, or whole.
TIME = st.integers(0, 2**61 // 1000).map(lambda us: us) | st.integers(0, 8 * 10**15).map(
    lambda ns: ns / 1000
)
CATEGORY = st.sampled_from(
    ["kernel", "gpu_memcpy", "Memset", "cuda_runtime", "cpu_op", "python_function", "Trace", "new"]
)
COMPLETE = st.fixed_dictionaries(
    {"ph": st.just("X"), "ts": TIME},
    optional={
        "dur": st.integers(0, 10**12),
        "cat": CATEGORY,
        "name": TEXT,
        "pid": st.integers(-1, 9) | st.sampled_from(["Spans", ""]),
        "tid": SMALL | TEXT,
        "args": ARGS,
        "extra": JSON,
    },
)
OTHER = st.fixed_dictionaries(
    {"ph": st.sampled_from(["f", "s", "i", "C", "zz", "é"])}, optional={"args": JSON, "name": JSON}
)


@st.composite
def event_lists(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Events in any order of keys, at least one of them complete and with a duration."""
    events = [*draw(st.lists(COMPLETE | OTHER, max_size=12)), draw(COMPLETE)]
    shuffled = []
    for event in events:
        keys = draw(st.permutations(sorted(event)))
        shuffled.append({key: event[key] for key in keys})
    for event in shuffled:
        if event["ph"] == "X":
            event.setdefault("dur", 1)
    # A GPU op that is written twice is read once, which other tests are about.
    seen: dict[str, dict[str, Any]] = {}
    for event in shuffled:
        args = event.get("args")
        place = [args.get(key) for key in ("device", "stream")] if isinstance(args, dict) else []
        seen.setdefault(repr((event.get("ts"), event.get("dur"), event.get("name"), place)), event)
    return list(seen.values())


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(event_lists(), st.dictionaries(TEXT, JSON, max_size=3), st.sampled_from(sorted(LAYOUTS)))
def test_any_events_in_any_layout(
    events: list[dict[str, Any]], top: dict[str, Any], layout: str
) -> None:
    top.pop("traceEvents", None)
    text = LAYOUTS[layout](top, events, {"traceName": "x"}).encode()
    plain = text.removeprefix(b"\xef\xbb\xbf")
    for sizes in (Settings(), Settings(slice=64, block=512)):
        assert_loads(load_with(text, settings=sizes), plain)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(event_lists(), st.integers(1, 400), st.integers(1, 4000))
def test_any_sizes_of_slice_and_block(events: list[dict[str, Any]], size: int, block: int) -> None:
    text = json.dumps({"traceEvents": events}).encode()
    assert_loads(load_with(text, settings=Settings(slice=size, block=block)), text)
