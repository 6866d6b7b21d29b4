"""Cuts never change what is read: every layout, every slice size, one process or three."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gaptrace.reading.settings import Settings
from tests.reading.tables import (
    ONE_BYTE,
    STRESS,
    assert_loads,
    document,
    events_of,
    load_with,
    same,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = sorted((Path(__file__).parents[2] / "sample_traces").glob("*.json.gz"))


def event(n: int, **changes: Any) -> dict[str, Any]:
    """A kernel among many."""
    made: dict[str, Any] = {
        "ph": "X",
        "cat": "kernel",
        "name": f"kernel_{n % 7}",
        "pid": 0,
        "tid": 7,
        "ts": round(8_000_000_000 + n * 10.003, 3),
        "dur": round(1.001 + n % 5, 3),
        "args": {"device": 0, "stream": 7, "correlation": n, "External id": n + 1},
    }
    made.update(changes)
    return made


def flow(n: int) -> dict[str, Any]:
    """A flow event, of which only the number is kept."""
    return {
        "ph": "f",
        "id": n,
        "pid": 0,
        "tid": 7,
        "ts": 8e9,
        "cat": "ac2g",
        "name": "ac2g",
        "bp": "e",
    }


PLAIN = [item for n in range(120) for item in (event(n), flow(n))]

# What stands in a file and looks like the end of an event, or like the list of events.
TRAPS: dict[str, list[dict[str, Any]]] = {
    "plain": PLAIN,
    "separator in a name": [
        event(n, name='a\n  },\n  {\n    "ph": "X", "name": "fake"') for n in range(60)
    ],
    "compact separator in a name": [event(n, name='x"},{"ph":"X","ts":1}') for n in range(60)],
    "list key in a name": [event(n, name='"traceEvents": [{"ph": "X"}]') for n in range(60)],
    "escaped quotes": [event(n, name='say "no" \\" \\\\') for n in range(60)],
    "control escapes": [event(n, name="tab\tline\nnul\x00bell\x07") for n in range(60)],
    "line separators": [event(n, name="\u2028\u2029\x85 é 语 😀") for n in range(60)],
    "keys in another order": [
        dict(sorted(event(n).items(), key=lambda item: (n * 7 + len(item[0])) % 5))
        for n in range(90)
    ],
    "phase last": [
        {**{k: v for k, v in event(n).items() if k != "ph"}, "ph": "X"} for n in range(90)
    ],
    "nested events": [
        event(n, args={"correlation": n, "children": [event(i) for i in range(5)]})
        for n in range(40)
    ],
    "list of lists in args": [
        event(n, args={"Input Dims": [[[1, 2], [3]], [], [4]], "x": {"traceEvents": [event(1)]}})
        for n in range(60)
    ],
    "no args": [{k: v for k, v in event(n).items() if k != "args"} for n in range(60)],
    "null args": [event(n, args=None) for n in range(60)],
    "one giant event": [
        event(0),
        event(1, args={"correlation": 9, "stack": ["frame"] * 9000}),
        event(2),
    ],
    "odd first key": [{"zzz": n, **event(n)} for n in range(60)],
    "other phases": [
        *PLAIN[:20],
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1},
        {"ph": "M", "name": "process_name", "pid": 5, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": 5, "tid": 6, "args": {"name": "main"}},
        {"ph": "C", "name": "memory", "pid": 5, "ts": 1, "args": {"bytes": 4}},
        {"ph": "new", "name": "a phase of tomorrow"},
        {"name": "no phase"},
    ],
}

HEADS: dict[str, dict[str, Any]] = {
    "kineto": {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]},
    "empty": {},
    "list key in metadata": {"note": '"traceEvents": [1]', "inner": {"traceEvents": [{"ph": "X"}]}},
}
TAIL = {"traceName": "x.json", "lists": [[1, 2], [{"id": 3}, {"id": 4}]], "baseTimeNanoseconds": 7}


def kineto(head: dict[str, Any], events: list[dict[str, Any]], tail: dict[str, Any]) -> str:
    """Kineto's own layout."""
    top = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    body = ",\n".join(f"  {{\n    {json.dumps(item)[1:-1]}\n  }}" for item in events)
    rest = "".join(f",\n  {json.dumps(key)}: {json.dumps(value)}" for key, value in tail.items())
    return f'\n{{\n{top}  "traceEvents": [\n{body}\n  ]{rest}\n}}'


def dumped(**options: Any) -> Callable[..., str]:
    """A layout of json.dumps."""

    def write(head: dict[str, Any], events: list[dict[str, Any]], tail: dict[str, Any]) -> str:
        return json.dumps({**head, "traceEvents": events, **tail}, **options)

    return write


LAYOUTS: dict[str, Callable[..., str]] = {
    "kineto": kineto,
    "kineto, CRLF": lambda *parts: kineto(*parts).replace("\n", "\r\n"),
    "default": dumped(),
    "compact": dumped(separators=(",", ":")),
    "indent 1": dumped(indent=1),
    "indent 2": dumped(indent=2),
    "indent 4": dumped(indent=4),
    "sorted": dumped(sort_keys=True),
    "sorted, indent 2": dumped(sort_keys=True, indent=2),
    "not ascii": dumped(ensure_ascii=False),
    "byte order mark": lambda *parts: "\ufeff" + kineto(*parts),
    "list": lambda head, events, tail: json.dumps(events),
    "list, indent 2": lambda head, events, tail: json.dumps(events, indent=2) + "\n",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("trap", TRAPS)
def test_every_layout_reads_as_json_does(trap: str, layout: str) -> None:
    text = LAYOUTS[layout](HEADS["kineto"], TRAPS[trap], TAIL).encode()
    plain = text.removeprefix(b"\xef\xbb\xbf")
    for settings in (STRESS, ONE_BYTE, Settings()):
        assert_loads(load_with(text, settings=settings), plain)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("head", HEADS)
def test_heads_and_tails_are_kept(head: str, layout: str) -> None:
    for tail in ({}, TAIL):
        text = LAYOUTS[layout](HEADS[head], PLAIN, tail).encode()
        assert_loads(load_with(text), text.removeprefix(b"\xef\xbb\xbf"))


@pytest.mark.parametrize(
    "trap", ["plain", "separator in a name", "nested events", "one giant event"]
)
@pytest.mark.parametrize("layout", ["kineto", "compact", "list"])
def test_workers_read_the_same(trap: str, layout: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(LAYOUTS[layout](HEADS["kineto"], TRAPS[trap], TAIL))
    one = load_with(path)
    same(one, load_with(path, processes=3))
    zipped = tmp_path / "trace.bin"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    same(one, load_with(zipped, processes=3))
    same(one, load_with(path.read_bytes(), processes=2))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_samples_read_exactly_in_any_way(path: Path, tmp_path: Path) -> None:
    text = gzip.decompress(path.read_bytes())
    plain = tmp_path / "plain"
    plain.write_bytes(text)
    one = load_with(path)
    assert_loads(one, text)
    assert one.source.compressed
    assert one.source.bytes == len(text)
    for source in (plain, text, path):
        same(one, load_with(source, processes=3))
    same(one, load_with(text, settings=Settings()))


def test_workers_are_used_and_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kineto's layout never needs the second, single-process reading."""

    def unexpected(text: object) -> None:
        raise AssertionError("read again in this process")

    monkeypatch.setattr("gaptrace.reading.loading.read_here", unexpected)
    text = kineto(HEADS["kineto"], TRAPS["separator in a name"] + PLAIN, TAIL)
    path = tmp_path / "trace.json"
    path.write_text(text)
    assert_loads(load_with(path, processes=2), text.encode())
    zipped = gzip.compress(text.encode())
    assert_loads(load_with(zipped, processes=2), text.encode())


def test_a_wrong_cut_between_workers_is_noticed(tmp_path: Path) -> None:
    """A cut inside nested events makes the file be read again in one process."""
    inner = [event(n) for n in range(400)]
    events = [event(0), event(1, args={"children": inner}), event(2)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    assert_loads(load_with(path, processes=2), path.read_bytes())


def test_a_lost_worker_costs_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gaptrace.reading.workers.sys.executable", "/bin/false")
    path = tmp_path / "trace.json"
    path.write_text(kineto({}, PLAIN, {}))
    assert_loads(load_with(path, processes=2), path.read_bytes())


def test_progress_ends_at_the_size_of_the_input(tmp_path: Path) -> None:
    from gaptrace.reading.loading import Request, read_trace

    path = tmp_path / "trace.json"
    path.write_text(kineto({}, PLAIN, {}))
    for processes in (1, 2):
        seen: list[tuple[int, int]] = []

        def note(done: int, total: int, seen: list[tuple[int, int]] = seen) -> None:
            seen.append((done, total))

        read_trace(path, Request(processes, settings=STRESS, progress=note))
        size = path.stat().st_size
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert {total for _, total in seen} == {size}
        assert seen[0][0] > 0
        assert seen[-1][0] > size * 0.9


def test_repeated_keys_count_as_json_counts_them() -> None:
    """Of two lists of events the last one is the document's, and the file says so."""
    first, last = json.dumps(PLAIN[:4]), json.dumps(PLAIN[4:10])
    text = f'{{"traceEvents": {first}, "traceEvents": {last}, "traceName": "x"}}'.encode()
    trace = load_with(text)
    assert len(trace) == sum(item["ph"] == "X" for item in events_of(text))
    assert [problem.id for problem in trace.problems] == ["repeated_key"]
    inside = '{"traceEvents": [{"ph": "X", "ph": "X", "ts": 1, "ts": 2, "dur": 3, "name": "n"}]}'
    assert load_with(inside.encode()).origin_ns == 2000


def test_reader_gives_parts_in_file_order() -> None:
    """Row numbers are positions among the file's complete events."""
    text = kineto({}, PLAIN, {}).encode()
    trace = load_with(text)
    correlations = [
        item["args"]["correlation"] for item in document(text)["traceEvents"] if item["ph"] == "X"
    ]
    assert trace.corr.tolist() == correlations
    assert trace.gpu.rows.tolist() == list(range(len(trace)))
