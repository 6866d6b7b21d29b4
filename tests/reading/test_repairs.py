"""Damage seen in the wild: what is read all the same, what is left out, and that it is counted."""

from __future__ import annotations

import gzip
import json
import time
from typing import TYPE_CHECKING

import pytest

from gaptrace.errors import BrokenTraceError, GaptraceError, NotATraceError
from gaptrace.reading.loading import load
from gaptrace.reading.settings import Settings
from tests.reading.tables import STRESS, load_with, problem_counts
from tests.reading.test_layouts import kineto

if TYPE_CHECKING:
    from gaptrace.trace import Problem, Trace


def line(n: int, *, name: str = "", extra: str = "") -> str:
    """One event as Kineto writes it, its name unescaped."""
    return (
        f'  {{\n    "ph": "X", "cat": "kernel", "name": "{name or f"k{n}"}", "pid": 0, "tid": 7,\n'
        f'    "ts": {100 + 10 * n}.000, "dur": 5.000,\n'
        f'    "args": {{\n      "correlation": {n}, "device": 0, "stream": 7{extra}\n    }}\n  }}'
    )


def file_of(*lines: str, tail: str = '\n  ],\n  "traceName": "x"\n}') -> bytes:
    """A Kineto file of these events."""
    return ('{\n  "schemaVersion": 1,\n  "traceEvents": [\n' + ",\n".join(lines) + tail).encode()


def loaded(text: bytes) -> Trace:
    """The trace, which is the same for large and for tiny slices."""
    small, large = load_with(text), load(text)
    rows = range(len(small))
    assert small.corr.tolist() == large.corr.tolist()
    assert problem_counts(small) == problem_counts(large)
    assert [repr(small.event(row)) for row in rows] == [repr(large.event(row)) for row in rows]
    return large


WHOLE = [line(n) for n in range(1, 41)]


def only(trace: Trace) -> Problem:
    """The one problem."""
    (problem,) = trace.problems
    return problem


@pytest.mark.parametrize(
    ("name", "says", "problem"),
    [
        ("void f<\\x>()", "void f<\\x>()", "bad_backslash"),
        ("C:\\dir\\sub", "C:\\dir\\sub", "bad_backslash"),
        ('op "quoted" here', 'op "quoted" here', "bad_quotes"),
        ('f(const char*)["a"]', 'f(const char*)["a"]', "bad_quotes"),
        ('lambda: {"key", 1}', 'lambda: {"key", 1}', "bad_quotes"),
        ("two\nlines", "two\nlines", "control_characters"),
        ("bell\x07", "bell\x07", "control_characters"),
    ],
)
def test_a_name_that_was_not_escaped(name: str, says: str, problem: str) -> None:
    text = file_of(*WHOLE[:20], line(99, name=name), *WHOLE[20:])
    trace = loaded(text)
    assert len(trace) == 41
    assert trace.name_of(20) == says
    assert trace.corr.tolist() == [*range(1, 21), 99, *range(21, 41)]
    assert trace.event(20)["name"] == says
    assert trace.metadata == {"schemaVersion": 1, "traceName": "x"}
    found = only(trace)
    assert found.id == problem
    place = text.decode().index('  {\n    "ph": "X", "cat": "kernel", "name": "' + name) + 2
    assert f"byte {place:,}" in found.text


def test_bad_utf8_is_replaced() -> None:
    text = file_of(*WHOLE[:3], line(99, name="kernel_@")).replace(b"kernel_@", b"kernel_\xff\xfe")
    trace = loaded(text)
    assert trace.name_of(3) == "kernel_\ufffd\ufffd"
    assert problem_counts(trace) == {"bad_utf8": 1}
    # In a text that no column keeps it is found all the same.
    trace = loaded(file_of(line(1, extra=', "x": "@"')).replace(b"@", b"\x80"))
    assert problem_counts(trace) == {"bad_utf8": 1}
    assert trace.event(0)["args"]["x"] == "\ufffd"


def test_half_a_character_pair_is_replaced() -> None:
    """In names, ids and metadata alike: what is loaded can be written to any file."""
    broken = line(1, name="\\ud800x", extra=', "stream": "\\udc00", "whole": "\\ud83d\\ude00"')
    trace = loaded(
        file_of(broken.replace('"tid": 7', '"tid": "\\ud83d"')).replace(b'"x"', b'"\\ud801"')
    )
    assert trace.name_of(0) == "\ufffdx"
    assert trace.lanes[0].tid == "\ufffd"
    assert trace.metadata["traceName"] == "\ufffd"
    assert trace.event(0)["args"]["whole"] == "\U0001f600"
    assert problem_counts(trace)["bad_utf8"] == 2


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "inf", "-inf", "nan", "-nan"])
def test_values_that_json_does_not_know(value: str) -> None:
    """Kineto #105 wrote an infinite bandwidth."""
    trace = loaded(
        file_of(*WHOLE[:5], line(9, extra=f',\n      "memory bandwidth (GB/s)": {value}'))
    )
    assert len(trace) == 6
    assert problem_counts(trace) == {"nan_values": 1}
    assert trace.corr[5] == 9


def test_unknown_values_in_every_event_are_not_looked_for_in_texts() -> None:
    names = ["a: NaN, b", "inf", " -Infinity ", 'x\\\\": nan, ']
    text = file_of(
        *(
            line(n, name=names[n % 4].replace('"', '\\"'), extra=', "x": [NaN, -inf, 1]')
            for n in range(1, 301)
        )
    )
    trace = loaded(text)
    assert trace.corr.tolist() == list(range(1, 301))
    assert [trace.name_of(row) for row in range(4)] == [
        "inf",
        " -Infinity ",
        'x\\": nan, ',
        "a: NaN, b",
    ]
    found = only(trace)
    assert (found.id, found.count) == ("nan_values", 600)
    assert f"byte {text.index(b'NaN, -inf'):,}" in found.text


def test_trailing_and_doubled_commas() -> None:
    trace = loaded(file_of(*WHOLE, tail=',\n  ],\n  "traceName": "x"\n}'))
    assert len(trace) == 40
    assert problem_counts(trace) == {"trailing_comma": 1}
    trace = loaded(file_of(*WHOLE[:3]).replace(b"},\n  {", b"},,\n  {"))
    assert (len(trace), problem_counts(trace)) == (3, {"trailing_comma": 2})
    inside = file_of(line(1, extra=","), line(2))
    trace = loaded(inside)
    assert (len(trace), problem_counts(trace)) == (2, {"trailing_comma": 1})


def test_missing_commas() -> None:
    trace = loaded(file_of(*WHOLE[:3]).replace(b"},\n  {", b"}\n  {"))
    assert (trace.corr.tolist(), problem_counts(trace)) == ([1, 2, 3], {"missing_comma": 2})


@pytest.mark.parametrize(
    "log",
    [
        "[W1129 12:00:00.000 collection.cpp:1] Warning: something",
        "INFO:2026-11-29 12:00:00 1:1 output_json.cpp:580] Wrote 5 events",
        "2026-11-29 12:00:00 worker started",
        "[rank0]: Traceback (most recent call last):",
        "STAGE:2026-11-29 12:00:00 1:1 ActivityProfilerController.cpp:312] Completed Stage",
    ],
)
def test_log_lines(log: str) -> None:
    """Between events, inside one, before and after the document: kineto #1336, #1184."""
    between = file_of(*WHOLE[:3]).replace(b"},\n  {", f"}},\n{log}\n  {{".encode(), 1)
    trace = loaded(between)
    assert (trace.corr.tolist(), problem_counts(trace)) == ([1, 2, 3], {"log_lines": 1})
    inside = file_of(*WHOLE[:3]).replace(b'7,\n    "ts"', f'7,\n{log}\n    "ts"'.encode(), 1)
    trace = loaded(inside)
    assert (trace.corr.tolist(), problem_counts(trace)) == ([1, 2, 3], {"log_lines": 1})
    before = f"{log}\n".encode() + file_of(*WHOLE[:3])
    trace = loaded(before)
    assert (trace.corr.tolist(), problem_counts(trace)) == ([1, 2, 3], {"log_lines": 1})
    assert trace.metadata["traceName"] == "x"


def test_an_event_that_cannot_be_repaired_is_counted_with_its_place() -> None:
    broken = '  {\n    "ph": "X", "cat": "kernel", "name" "k", : [}\n  }'
    text = file_of(*WHOLE[:20], broken, *WHOLE[20:30], broken, *WHOLE[30:])
    trace = loaded(text)
    assert trace.corr.tolist() == list(range(1, 41))
    found = only(trace)
    assert (found.id, found.count) == ("dropped_events", 2)
    assert f"byte {text.index(broken.encode()) + 2:,}" in found.text
    assert trace.source.events == 40


def test_a_file_cut_anywhere_keeps_all_complete_events() -> None:
    text = file_of(*WHOLE[:6], line(7, extra=', "x": [{"a": [1, "}, {"]}]'))
    ends = [text.index(f'"correlation": {n},'.encode()) for n in range(1, 8)]
    ends = [text.index(b"    }\n  }", at) + len(b"    }\n  }") for at in ends]
    list_end = text.index(b'  ],\n  "traceName"')
    for size in range(len(text)):
        complete = sum(end <= size for end in ends)
        if not complete:
            with pytest.raises(GaptraceError):
                load_with(text[:size])
            continue
        trace = load_with(text[:size])
        assert trace.corr.tolist() == list(range(1, complete + 1))
        ids = set(problem_counts(trace))
        assert ids == ({"truncated"} if size < list_end + 3 else {"broken_metadata"})


@pytest.mark.parametrize("settings", [STRESS, Settings()])
def test_a_gzip_cut_short_keeps_what_it_holds(settings: Settings) -> None:
    text = file_of(*(line(n) for n in range(1, 3001)))
    whole = gzip.compress(text)
    for size in (len(whole) // 2, len(whole) - 9, len(whole) - 4):
        trace = load_with(whole[:size], settings=settings)
        found = problem_counts(trace)
        assert found["truncated_gzip"] == 1
        assert trace.corr.tolist() == list(range(1, len(trace) + 1))
        assert (len(trace) == 3000) == (size > len(whole) - 10)
    with pytest.raises(GaptraceError):
        load_with(whole[:20])


def test_a_damaged_gzip_is_read_as_far_as_it_goes() -> None:
    text = file_of(*(line(n) for n in range(1, 3001)))
    whole = gzip.compress(text)
    wrong_sum = whole[:-8] + b"\0\0\0\0" + whole[-4:]
    trace = load_with(wrong_sum)
    assert len(trace) == 3000
    assert problem_counts(trace) == {"corrupt_gzip": 1}
    two = gzip.compress(text[:5000]) + gzip.compress(text[5000:]) + b"\0" * 512
    assert (len(load_with(two)), load_with(two).problems) == (3000, ())


def test_without_isal_the_standard_library_inflates(monkeypatch: pytest.MonkeyPatch) -> None:
    text = file_of(*(line(n) for n in range(1, 3001)))
    whole = gzip.compress(text)
    monkeypatch.setattr("gaptrace.reading.inputs.ISAL", False)
    assert load_with(whole).corr.tolist() == list(range(1, 3001))
    assert load_with(whole).problems == ()
    cut = load_with(whole[:-4])
    assert (len(cut), problem_counts(cut)) == (3000, {"truncated_gzip": 1})


def test_broken_metadata_costs_only_itself() -> None:
    """Kineto #1459: quotes in the metadata were not escaped."""
    text = file_of(*WHOLE).replace(b'"x"', b'"a "quoted" run"')
    trace = loaded(text)
    assert len(trace) == 40
    assert trace.metadata["traceName"] == 'a "quoted" run'
    assert problem_counts(trace) == {"bad_quotes": 2}
    text = file_of(*WHOLE).replace(b'"x"', b"x: {[")
    trace = loaded(text)
    assert trace.metadata == {"schemaVersion": 1}
    assert problem_counts(trace) == {"broken_metadata": 1}


def test_durations_and_times_that_are_none() -> None:
    text = file_of(
        line(1),
        line(2).replace('"dur": 5.000', '"dur": -1.5'),
        line(3).replace(', "dur": 5.000', ""),
        line(4).replace('"dur": 5.000', '"dur": "soon"'),
        line(5).replace('"dur": 5.000', '"dur": null'),
        line(6).replace("160.000", "null"),
        line(7).replace("170.000", '"late"'),
        line(8).replace('"ts": 180.000,', ""),
        line(9).replace("190.000", "1e30"),
        line(10),
    )
    trace = loaded(text)
    assert trace.corr.tolist() == [1, 2, 3, 4, 5, 10]
    assert trace.dur.tolist() == [5000, 0, 0, 0, 0, 5000]
    assert problem_counts(trace) == {
        "negative_duration": 1,
        "unfinished": 3,
        "unreadable_time": 4,
    }
    assert trace.source.events == 10
    assert trace.source.ignored == {"X": 4}
    assert trace.event(5)["args"]["correlation"] == 10


def test_ids_that_are_no_integers() -> None:
    text = file_of(
        line(1).replace('"correlation": 1', '"correlation": "0x10"'),
        line(2).replace('"correlation": 2', '"correlation": " 12 "'),
        line(3).replace('"correlation": 3', '"correlation": null'),
        line(4).replace('"correlation": 4', '"correlation": 3.0'),
        line(5).replace('"correlation": 5', '"correlation": [1]'),
        line(6).replace('"correlation": 6', '"correlation": 99999999999999999999'),
        line(7).replace('"stream": 7', '"stream": 4294967295'),
        line(8).replace('"tid": 7', '"tid": -8'),
        line(9).replace('"tid": 7', '"tid": [1]').replace('"k9"', "null"),
    )
    trace = loaded(text)
    assert trace.corr.tolist() == [16, 12, 0, 3, 0, 0, 7, 8, 9]
    assert trace.gpu.stream.tolist() == [7, 7, 7, 7, 7, 7, 4294967295, 7, 7]
    assert trace.lanes[trace.lane[7]].tid == "-8"
    assert trace.name_of(8) == ""
    assert problem_counts(trace) == {"unreadable_value": 2}


def test_elements_that_are_no_events() -> None:
    text = file_of(line(1), "3", "null", '"text"', "[1, 2]", "{}", line(2))
    trace = loaded(text)
    assert trace.corr.tolist() == [1, 2]
    assert problem_counts(trace) == {"not_an_event": 4}
    assert trace.source.events == 7
    assert trace.source.ignored == {"": 5}


def test_begin_end_pairs_are_said_to_be_ignored() -> None:
    pair = '  {"ph": "B", "name": "b", "ts": 1, "pid": 1, "tid": 1}'
    trace = loaded(file_of(line(1), pair, pair.replace('"B"', '"E"'), line(2)))
    assert trace.source.ignored == {"B": 1, "E": 1}
    assert problem_counts(trace) == {"begin_end_pairs": 2}


def test_utf16_is_converted() -> None:
    trace = load_with(file_of(*WHOLE).decode().encode("utf-16"))
    assert (len(trace), problem_counts(trace)) == (40, {"utf16": 1})
    assert trace.event(3)["args"]["correlation"] == 4


def test_text_after_a_list() -> None:
    text = ("[" + ",\n".join(WHOLE) + "]\nDone.\n").encode()
    trace = loaded(text)
    assert (len(trace), problem_counts(trace)) == (40, {"text_after_end": 1})


def test_every_event_broken_is_a_broken_trace() -> None:
    broken = ['  {\n    "ph": "X", "name" "k", : [}\n  }'] * 50
    with pytest.raises(BrokenTraceError, match="nothing usable is left"):
        load(file_of(*broken))


@pytest.mark.parametrize(
    "text",
    [
        b"\0" * 20_000_000,
        b'{"traceEvents": [' + b'{"ph":' * 3_000_000,
        b'{"traceEvents": [' + b"[" * 20_000_000,
        b'{"traceEvents": [' + b',{"ph":[1' * 2_000_000,
        b'{"traceEvents": [' + b'\n{"ph": "X", ' * 1_500_000,
        b'{"traceEvents": [' + b'{"ph": "X", "name": "' + b"a" * 20_000_000,
        b'{"traceEvents": [' + b"\n" * 20_000_000,
        b'{"traceEvents": [' + b'"' * 20_000_000,
        b'{"a": ' * 3_000_000,
        b"[" * 20_000_000,
        b"garbage, " * 2_000_000,
        bytes(range(256)) * 80_000,
        b'{"traceEvents": [' + b"},{" * 6_000_000,
        b'{"x": "' + b"\\" * 20_000_000,
        b"{" + b'"traceEvents": [' * 1_000_000,
        b"{" + b'"traceEvents": [], ' * 1_000_000,
        b'{"a": ' + b'{"traceEvents": [' * 1_000_000,
    ],
    ids=range(17),
)
def test_hostile_input_is_refused_in_bounded_time(text: bytes) -> None:
    begin = time.process_time()
    with pytest.raises((BrokenTraceError, NotATraceError)):
        load(text, processes=1)
    # A quadratic step would take hours; the limit is generous for slow machines.
    assert time.process_time() - begin < 30


def test_damage_everywhere_is_given_up_and_said() -> None:
    good = [line(n) for n in range(1, 11)]
    text = file_of(*good, *['  {"ph": "X", oops }'] * 200)
    trace = load_with(text, settings=Settings(failures=100))
    assert len(trace) == 10
    found = problem_counts(trace)
    assert found["dropped_events"] == 100
    assert found["given_up"] == 1


def test_kineto_file_that_is_sound_has_no_problem() -> None:
    text = kineto({"a": 1}, [json.loads(one) for one in WHOLE], {"b": 2}).encode()
    assert load(text).problems == ()
