"""SVG drawings: bounded, well-formed, complete in words."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest

from gaptrace import units
from gaptrace.errors import OptionError
from gaptrace.measure.gaps import CAUSES
from gaptrace.report import palette
from gaptrace.report.bridge_svg import beams
from gaptrace.report.charts import STRIP_STEPS, bars, ceilings_chart, strip_bars, token_rows
from gaptrace.report.matrix import PREDICTED, MatrixCell, matrix, run_cells
from gaptrace.report.patterns import colour_rules, looks, pattern_defs, variables
from gaptrace.report.scope import Scope
from gaptrace.report.step_svg import MOST_MARKS, draw_step, gap_text, round_times
from gaptrace.report.svg import render_bridge_svg, render_run_svg, render_step_svg
from gaptrace.report.timeline_data import Names
from gaptrace.report.views import views
from gaptrace.report.windows import timeline
from tests.builders import mark, op, trace_of
from tests.report.material import comparison, drawn, hostile, run, sample

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("mode", ["eager", "compiled", "graph"])
def test_a_step_takes_at_most_two_thousand_marks(mode: str) -> None:
    drawing = draw_step(views(sample(mode))[0].timeline)
    assert 0 < drawing.marks <= MOST_MARKS
    # What is counted is what is drawn: one rectangle a subpath, one object a gap.
    shapes = len(re.findall(r"M[\d.]+ [\d.]+h", drawing.body)) + drawing.body.count('class="gap"')
    assert shapes == drawing.marks


def test_a_busy_recording_stays_under_the_limit_and_says_what_was_merged() -> None:
    analysis = drawn(steps=40, kernels=200)
    assert analysis.device is not None
    end = int(analysis.device.links.end.max())
    drawing = draw_step(timeline(Scope(analysis), "all", 0, end, Names()))
    assert drawing.marks <= MOST_MARKS
    assert any("drawn merged" in note for note in drawing.notes)


def test_standalone_pictures_are_well_formed_and_themed() -> None:
    for text in (
        render_step_svg(sample("eager")),
        render_step_svg(hostile()),
        render_run_svg(run()),
        render_bridge_svg(comparison()),
    ):
        root = ET.fromstring(text)
        assert root.tag == f"{SVG}svg"
        assert root.get("aria-label")
        assert "prefers-color-scheme:dark" in text
        assert not re.search(r'(?:href|src)="|url\((?!#)', text)


def test_the_standalone_step_names_every_cause_it_draws() -> None:
    item = views(sample("eager"))[0].timeline
    text = render_step_svg(sample("eager"))
    for code in np.unique(item.parts.kind).tolist():
        assert palette.CAUSES[CAUSES[code]].word in text


def test_every_look_has_a_colour_in_both_schemes_and_a_pattern() -> None:
    rules, defs = colour_rules(), pattern_defs()
    light, dark = variables("light"), variables("dark")
    for name, look in looks().items():
        assert f".{name}{{" in rules
        if look.pattern not in ("solid", "outline"):
            assert f'id="p-{name}"' in defs
        if look.light != "none":
            assert f"--{name}:" in light
            assert f"--{name}:" in dark


def test_a_gap_is_said_in_words() -> None:
    item = views(drawn(steps=4, kernels=2))[0].timeline
    # The first gap is the one before the step; the next lies between its two kernels.
    text = gap_text(item, 1)
    assert text.startswith("gap 2: 3.00 µs idle (")
    for word in ("Python between ops", "op dispatch", "launch and its way to the GPU"):
        assert word in text
    assert "after gemm_0, before gemm_1; launched by cudaLaunchKernel" in text


def test_ticks_are_round_and_in_one_unit() -> None:
    assert round_times(0, 14_800_000, most=4) == [
        (0, "0 ms"), (5_000_000, "5 ms"), (10_000_000, "10 ms")
    ]  # fmt: skip
    assert [text for _, text in round_times(-300, 2_400, most=3)] == ["0 µs", "1 µs", "2 µs"]


def test_bars_show_each_part_with_its_time_and_share() -> None:
    rows = token_rows(drawn(steps=8, kernels=4))
    text = bars(rows, "label")
    # Per step: 4 kernels of 2 µs, 4 gaps of 3 µs, 10 µs between steps: 30 µs, 8 of them busy.
    assert rows[0].total == 30_000
    assert "busy: 8.00 µs (27 %)" in text
    assert "op dispatch: 4.00 µs (13 %)" in text


def test_ceilings_are_drawn_where_they_are_known() -> None:
    eager = sample("eager")
    text = ceilings_chart(eager)
    assert text is not None
    assert units.rate(eager.ceilings.launch_tokens_per_s) in text
    assert f"measured {units.rate(eager.headline.rate.tokens_per_s)}" in text
    assert ceilings_chart(analysis_without_gpu()) is None


@pytest.mark.parametrize(("bandwidth", "apart"), [(1_709, True), (900_000_000, False)])
def test_labels_of_near_ceilings_are_stacked(bandwidth: float, apart: bool) -> None:
    eager = sample("eager")
    limits = dataclasses.replace(
        eager.ceilings, launch_tokens_per_s=622, bandwidth_tokens_per_s=bandwidth
    )
    text = str(ceilings_chart(dataclasses.replace(eager, ceilings=limits)))
    heights = re.findall(r'<text x="[^"]+" y="(\d+)"[^>]*>(?:launch|bandwidth) ceiling', text)
    assert len(heights) == 2
    assert (heights[0] != heights[1]) is apart


def analysis_without_gpu():  # type: ignore[no-untyped-def]
    """An analysis of a recording in which nothing ran on a GPU."""
    from gaptrace.measure.analyze import analyze

    return analyze(trace_of(mark("gaptrace.step#0", at=0, dur=50), op("aten::mm", at=5, dur=9)))


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(OptionError, match="no GPU work"):
        render_step_svg(analysis_without_gpu())


def test_a_long_strip_shows_the_longest_of_each_group() -> None:
    steps = drawn(steps=300, kernels=2).step_table
    assert steps is not None
    shown = strip_bars(steps)
    assert len(shown) <= STRIP_STEPS
    assert sum(bar.stands_for for bar in shown) == 300


def test_bridge_rows_join_up_exactly() -> None:
    bridge = comparison().pairs[0].bridge
    assert bridge is not None
    rows = beams(bridge)
    assert (rows[0].end_ns, rows[-1].end_ns) == bridge.ends
    for before, after in pairwise(rows[:-1]):
        assert before.end_ns == after.start_ns
    assert rows[-2].end_ns == rows[-1].end_ns


def test_the_matrix_tells_measured_predicted_and_unknown_apart() -> None:
    predicted = {"compiled-graph": MatrixCell(500.0, 2e6, PREDICTED, "", (1.9e6, 2.1e6))}
    cells = run_cells(run(), predicted)
    assert cells is not None
    text = matrix(cells)
    assert text.count("measured") == 3
    assert "predicted ±5 %" in text
    assert 'class="predicted"' in text
    assert 'class="range"' in text
    # The range of the fastest goes beyond every bar, and the scale with it.
    whole = {**cells, "compiled-graph": MatrixCell(1e5, 1e4, PREDICTED, "", (8e3, 1.25e4))}
    ends = re.findall(r'x([12])="([\d.]+)%"', matrix(whole))
    assert dict(ends) == {"1": "64", "2": "100"}
    assert 'width="80%"' in matrix(whole)
    blank = run_cells(run())
    assert blank is not None
    assert "step.pos moved between steps" in matrix(blank)
    assert "not recorded" in matrix(blank)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("one line", ["one line"]),
        ("compiled-graph wins", ["compiled-graph", "wins"]),
        (
            "the first line, then a second that is too long",
            ["the first line,", "then a s…too long"],
        ),
    ],
)
def test_a_headline_keeps_its_first_line_whole(text: str, lines: list[str]) -> None:
    found = units.two_lines(text, 17)
    assert [line if len(line) <= 17 else "" for line in found] == found
    assert found == lines
