"""Every time is the integer number of nanoseconds that its decimal text says."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptrace.reading import blocks
from gaptrace.reading.loading import load
from gaptrace.reading.times import exact_ns
from tests.reading.tables import events_of, load_with, ns, problem_counts

SAMPLES = sorted((Path(__file__).parents[2] / "sample_traces").glob("*.json.gz"))


def times_of(*texts: str, durs: tuple[str, ...] = ()) -> tuple[list[int], list[int]]:
    """Absolute starts and durations of events with these texts."""
    durs = durs or ("1.000",) * len(texts)
    lines = [
        f'{{"ph": "X", "name": "n", "pid": 1, "tid": 1, "ts": {ts}, "dur": {dur}}}'
        for ts, dur in zip(texts, durs, strict=True)
    ]
    trace = load(f'{{"traceEvents": [{", ".join(lines)}]}}'.encode())
    assert trace.problems == ()
    return [start + trace.origin_ns for start in trace.start.tolist()], trace.dur.tolist()


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_time_of_the_samples(path: Path) -> None:
    events = [item for item in events_of(gzip.decompress(path.read_bytes())) if item["ph"] == "X"]
    trace = load(path)
    starts = [ns(item["ts"]) for item in events]
    assert trace.origin_ns == min(starts)
    assert (trace.start + trace.origin_ns).tolist() == starts
    assert trace.dur.tolist() == [ns(item["dur"]) for item in events]


@pytest.mark.parametrize("whole", [0, 1, 999, 5_113_677_315_365, 8_796_093_022_207])
def test_three_decimals_up_to_the_limit_of_a_double(whole: int) -> None:
    texts = [f"{whole}.{n:03d}" for n in range(1000)]
    assert times_of(*texts)[0] == [ns(text) for text in texts]


@pytest.mark.parametrize("whole", [8_796_093_022_208, 8_799_999_999_999, 9_999_999_999_999])
def test_three_decimals_beyond_the_limit_of_a_double(whole: int) -> None:
    texts = [f"{whole}.{n:03d}" for n in range(1000)]
    assert times_of(*texts)[0] == [ns(text) for text in texts]


def test_times_that_a_double_holds_are_not_read_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading times as text takes half as long again, and Kineto's own times do not need it."""
    monkeypatch.setattr(blocks, "EXACT_SLICE_DECODER", None)
    texts = ("5103840750846.354", "5103840750847.001", "8796093022207.999")
    assert times_of(*texts)[0] == [ns(text) for text in texts]
    with pytest.raises(AttributeError):
        times_of("1682725898242334.001", "1682725898242335.001", "1682725898242336.001")


def test_epoch_times_are_read_as_text() -> None:
    texts = [f"1682725898242334.{n:03d}" for n in range(1000)]
    assert len({float(text) for text in texts}) < 10
    assert times_of(*texts, durs=tuple(f"{n}.001" for n in range(1000))) == (
        [ns(text) for text in texts],
        [n * 1000 + 1 for n in range(1000)],
    )


def test_whole_epoch_microseconds() -> None:
    assert times_of("1606910596297023", "1606910596297059", durs=("13", "7")) == (
        [1606910596297023000, 1606910596297059000],
        [13000, 7000],
    )


def test_times_as_strings() -> None:
    """Ascend and others write them so."""
    assert times_of('"1682725898242334.125"', '"12.5"', '"7"', durs=('"1.5"', "2", '"0.001"')) == (
        [1682725898242334125, 12500, 7000],
        [1500, 2000, 1],
    )


def test_mixed_and_odd_spellings() -> None:
    texts = ["1e3", "1.5E-3", "2.50", "0.0009", "1e-9", "-0.5", "-3.001", "1682725898242334.1"]
    assert times_of(*texts)[0] == [1000000, 2, 2500, 1, 0, -500, -3001, 1682725898242334100]


def test_finer_than_a_nanosecond_rounds_to_even_as_decimal_does() -> None:
    texts = ["10.0004", "10.0006", "10.0005", "10.0015", "123456.78949", "123456.7895"]
    assert times_of(*texts)[0] == [ns(text) for text in texts]


def test_row_times_count_from_the_smallest_start_wherever_it_stands() -> None:
    text = b'[{"ph":"X","ts":20.5,"dur":1},{"ph":"X","ts":10.25,"dur":2},{"ph":"M","ts":1}]'
    trace = load(text)
    assert (trace.origin_ns, trace.start.tolist()) == (10250, [10250, 0])


@pytest.mark.parametrize("value", ["", "-", "+", ".", "x", "NaN", "Infinity", "1e99", "9" * 500])
def test_texts_that_are_no_time(value: str) -> None:
    assert exact_ns(value) is None
    other = '{"ph": "X", "ts": 1, "dur": 1}'
    trace = load_with(f'[{{"ph": "X", "ts": "{value}", "dur": 1}}, {other}]'.encode())
    assert (len(trace), problem_counts(trace)) == (1, {"unreadable_time": 1})


@pytest.mark.parametrize("value", ["null", "[]", "{}", "1e300", "9" * 30, "9" * 5000])
def test_values_that_are_no_time(value: str) -> None:
    other = '{"ph": "X", "ts": 1, "dur": 1}'
    trace = load_with(f'[{{"ph": "X", "ts": {value}, "dur": 1}}, {other}]'.encode())
    assert len(trace) == 1
    assert set(problem_counts(trace)) <= {"unreadable_time", "dropped_events"}


@given(st.lists(st.integers(-(10**15), 10**18), min_size=1, max_size=30))
def test_any_nanosecond_survives(values: list[int]) -> None:
    texts = []
    for value in values:
        whole, rest = divmod(abs(value), 1000)
        texts.append(f"{'-' if value < 0 else ''}{whole}.{rest:03d}")
    assert times_of(*texts)[0] == values


@given(st.lists(st.floats(0, 2**42, allow_nan=False), min_size=1, max_size=30))
def test_any_number_that_python_writes(values: list[float]) -> None:
    assert times_of(*map(json.dumps, values))[0] == [ns(json.dumps(value)) for value in values]
