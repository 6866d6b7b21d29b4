"""Which events mark the steps: every rule, in the stated order, and what labels say."""

from __future__ import annotations

import pytest

from gaptrace.errors import OptionError
from gaptrace.measure.links import link
from gaptrace.measure.marks import Marks, find_marks
from tests.builders import Event, graph_launch, kernel, launch, mark, op, trace_of


def marks_of(*events: Event, step: str | None = None) -> Marks:
    trace = trace_of(*events)
    return find_marks(trace, link(trace), step)


def work(at: int, corr: int, name: str = "k", tid: int = 1) -> tuple[Event, ...]:
    return launch(at=at, dur=2, corr=corr, tid=tid), kernel(name, at=at + 5, dur=5, corr=corr)


def two(*names: str) -> tuple[Event, ...]:
    """Two steps of 100 ns, each inside the marks of the given names, the first one outermost."""
    events: list[Event] = []
    for step in range(2):
        at = 100 * (step + 1)
        for depth, name in enumerate(names):
            text = name.replace("{}", str(step))
            events.append(mark(text, at=at + depth, dur=50 - 2 * depth))
        events += work(at + 20, corr=step + 1)
    return tuple(events)


@pytest.mark.parametrize(
    ("names", "rule"),
    [
        (("gaptrace.step#{}", "ProfilerStep#{}"), "gaptrace marks"),
        (("ProfilerStep#{}", "gaptrace.step#{}"), "gaptrace marks"),
        (("ProfilerStep#{}", "step[DECODE bs=4]"), "engine labels"),
        (("execute_context_0(0)_generation_2(2)", "step[DECODE bs=2]"), "engine labels"),
        (("[Executor] _forward_step 7{}: 0 ctx reqs, 0 ctx tokens, 3 gen reqs",), "engine labels"),
        (("decode[bs=64 tok=64 d=64]",), "engine labels"),
        (("ProfilerStep#{}", "mine {}"), "ProfilerStep"),
        (("decode_step#{}",), "repeated annotations"),
        (("outer {}", "inner {}"), "repeated annotations"),
        (("## Call CompiledFxGraph abc ##",), "compiled regions"),
        (("Torch-Compiled Region: 0/{}",), "compiled regions"),
        (("nccl:all_reduce",), "whole trace"),
    ],
)
def test_the_first_rule_that_matches_decides(names: tuple[str, ...], rule: str) -> None:
    assert marks_of(*two(*names)).rule == rule


def test_of_nested_marks_the_outermost_counts() -> None:
    marks = marks_of(*two("outer {}", "inner {}"))
    assert marks.start.tolist() == [100, 200]


def test_inner_annotations_that_repeat_more_often_do_not_win() -> None:
    events = [*two("step {}")]
    events += [mark("layer", at=110 + 5 * i, dur=2) for i in range(4)]
    assert marks_of(*events).start.tolist() == [100, 200]


def test_an_option_names_marks_ops_too_and_misses_are_errors() -> None:
    events = (*two("ProfilerStep#{}"), op("my::decode", at=120, dur=10), *work(310, 9))
    assert marks_of(*events, step="my::dec").rule == "--step"
    with pytest.raises(OptionError, match="nothing-like-it") as error:
        marks_of(*events, step="nothing-like-it")
    assert "ProfilerStep#0" in error.value.hint
    with pytest.raises(OptionError, match="regular expression"):
        marks_of(*events, step="(")


def test_marks_on_two_threads_the_one_that_launches_counts() -> None:
    events = [*two("ProfilerStep#{}")]
    events += [mark(f"ProfilerStep#{i}", at=100 * (i + 1) + 3, dur=60, tid=9) for i in range(2)]
    assert marks_of(*events).start.tolist() == [100, 200]


def layered_step(at: int, corr: int) -> tuple[Event, ...]:
    """embed, four layers of (norm, gemm), head; the pause comes before embed."""
    names = ["embed", *["norm", "gemm"] * 4, "head"]
    events: list[Event] = []
    for i, name in enumerate(names):
        events += work(at + 10 * i, corr + i, name)
    return tuple(events)


def test_without_marks_the_period_of_whole_steps_is_found_not_that_of_layers() -> None:
    events = [e for step in range(5) for e in layered_step(50 + 300 * step, 1 + 10 * step)]
    marks = marks_of(*events)
    assert marks.rule == "repeating kernels"
    assert marks.start.tolist() == [50 + 300 * step for step in range(5)]


def test_without_marks_repeating_graph_replays_are_steps() -> None:
    events: list[Event] = []
    for step in range(4):
        at = 100 + 500 * step
        events += [graph_launch(at=at, dur=5, corr=1 + 2 * step)]
        events += [
            kernel(n, at=at + 20 + 10 * i, dur=8, corr=1 + 2 * step) for i, n in enumerate("ab")
        ]
        events += work(at + 100, 2 + 2 * step, "sample")
    marks = marks_of(*events)
    assert marks.rule == "repeating kernels"
    assert len(marks) == 4


def test_no_repetition_is_one_window() -> None:
    events = [e for i, name in enumerate("abcdef") for e in work(10 * i + 5, i + 1, name)]
    marks = marks_of(*events)
    assert (marks.rule, len(marks)) == ("whole trace", 1)
    assert marks.start[0] <= 5


def test_an_inner_label_gives_phase_and_tokens_to_the_outer_mark() -> None:
    marks = marks_of(*two("ProfilerStep#{}"), *two("execute_context_0(0)_generation_2(5)"))
    assert [(label.tokens_low, label.tokens_high) for label in marks.label] == [(2, 5), (2, 5)]
    nested = marks_of(*two("execute_3_context_0()_generation_4()", "step[DECODE bs=4]"))
    outer = nested.label[0]
    assert (outer.phase, outer.batch, outer.tokens, outer.engine) == ("decode", 4, 4, "vLLM")
