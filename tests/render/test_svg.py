"""Drawings and SVG files: true to scale, bounded, well-formed, complete in words."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import accumulate

import numpy as np
import pytest

from gaptrace.document.blocks import BLOCKS, Timeline, blocks_of
from gaptrace.render.drawing.bars import draw_bars, in_range
from gaptrace.render.drawing.charts import draw_chart
from gaptrace.render.drawing.curves import MARKERS
from gaptrace.render.drawing.lanes import (
    MOST_MARKS,
    WIDTH,
    _cells,
    draw_lanes,
    round_times,
    small_multiples,
)
from gaptrace.render.drawing.looks import (
    NEUTRALS,
    TILES,
    all_looks,
    canvas_looks,
    colour_rules,
    pattern_defs,
    variables,
)
from gaptrace.render.elements import element
from gaptrace.render.formats import Style
from gaptrace.render.svg import DRAWS, FORMAT, Sheet
from gaptrace.timeline.columns import CAUSES, Names
from gaptrace.timeline.scope import Scope
from gaptrace.timeline.views import Views, views
from gaptrace.timeline.windows import stretch
from gaptrace.vocabulary import CAUSES as CAUSE_WORDS
from gaptrace.vocabulary import HOST_CLASSES, MODES, OP_CLASSES
from tests.render import material
from tests.render.material import by_hand, doc, drawn, hostile, sample

SVG = "{http://www.w3.org/2000/svg}"


def text_of(picture) -> str:  # type: ignore[no-untyped-def]
    return str(element("svg", picture.shapes, picture.labels))


def first(analysis) -> Views:  # type: ignore[no-untyped-def]
    return next(b.data for b in blocks_of(doc(analysis)) if isinstance(b, Timeline))


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    "make",
    [
        by_hand,
        lambda: doc(sample("eager")),
        lambda: doc(hostile()),
        lambda: doc(material.without_gpu()),
        material.run_doc,
        material.pair_doc,
        material.two_pairs,
    ],
)
def test_files_are_well_formed_themed_and_alone(make) -> None:  # type: ignore[no-untyped-def]
    text = FORMAT.render(make(), Style())
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert root.get("aria-label")
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r'(?:href|src)="|url\((?!#)', text)
    assert text == FORMAT.render(make(), Style())


@pytest.mark.parametrize("kind", BLOCKS)
def test_every_block_type_is_drawn(kind: type) -> None:
    blocks = [*material.every_block(), *blocks_of(doc(sample("eager")))]
    for block in blocks:
        if type(block) is kind:
            sheet = Sheet()
            DRAWS[kind](block, sheet)
            assert sheet.shapes
            assert sheet.y > 8


def test_words_reach_the_file_and_other_parts_are_named() -> None:
    text = FORMAT.render(by_hand(parts=3), Style())
    for said in ("step, ms (unprofiled)", "second, µs (as profiled)", "no clock", "GT101", "8.10"):
        assert said in text
    assert "words of 0" in text
    assert "Not drawn here: mode 1, mode 2." in text


# ---------------------------------------------------------------- looks


def test_every_look_has_a_colour_in_both_schemes_and_a_pattern() -> None:
    rules, defs = colour_rules(), str(pattern_defs())
    light, dark = variables("light"), variables("dark")
    for name, look in all_looks().items():
        assert f".{name}{{" in rules
        if look.pattern not in ("solid", "outline"):
            assert f'id="p-{name}"' in defs
        if look.light != "none":
            assert f"--{name}:" in light
            assert f"--{name}:" in dark


def test_the_canvas_has_every_look_with_its_pattern() -> None:
    for looks, words in zip(
        canvas_looks().values(), (CAUSE_WORDS, HOST_CLASSES, OP_CLASSES), strict=True
    ):
        for look in looks:
            pattern = words[look["id"]].look.pattern
            assert (look["tile"] is None) == (pattern in ("solid", "outline"))
            assert look["tile"] is None or tuple(look["tile"][:3]) == TILES[pattern]


def test_modes_are_told_apart_by_shape_and_stand_out_from_the_page() -> None:
    shapes = [mode.look.pattern for mode in MODES.values()]
    assert len(set(shapes)) == len(shapes)
    assert set(shapes) <= set(MARKERS)
    for mode in MODES.values():
        for colour, ground in zip((mode.look.light, mode.look.dark), NEUTRALS["bg"], strict=True):
            assert _contrast(colour, ground) >= 3


def _contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


# ---------------------------------------------------------------- bars


def test_bars_share_one_scale_and_name_what_they_draw() -> None:
    picture = draw_bars(material.STACKED)
    widths = [float(w) for w in re.findall(r'width="([\d.]+)%"', text_of(picture))]
    # 1.69, 2.50 and 0.55 of 4.74; then 2.00, twice: filled, and hatched.
    assert widths == pytest.approx([35.654, 52.743, 11.603, 42.194, 42.194], abs=0.005)
    assert [entry.label for entry in picture.legend] == [
        "GPU busy", "waiting in a sync", "launch latency",
    ]  # fmt: skip
    assert "launch latency: 550 µs (as profiled); an upper bound" in text_of(picture)
    assert text_of(picture).count('class="hatch"') == 1


def test_a_bridge_joins_up_and_stays_between_zero_and_the_longer_step() -> None:
    picture = draw_bars(material.BRIDGE)
    text = text_of(picture)
    boxes = [
        (float(x), float(w))
        for x, w in re.findall(r'x="([\d.]+)%" y="[\d.]+" width="([\d.]+)%"', text)
    ]
    ends = [boxes[0], *boxes[1:]]
    # Dispatch takes 6 of 10, then GEMM must add 3 before Python can take 5.
    assert ends[0] == (0, 80)
    assert min(x for x, _ in ends) >= 0
    assert max(x + w for x, w in ends) <= 80
    assert boxes[1:4] == [(32, 48), (32, 24), (16, 40)]
    assert text.index("−6.00 µs") < text.index("+3.00 µs") < text.index("−5.00 µs")
    assert text.count('class="hatch"') == 1
    assert 'class="zero"' in text


@pytest.mark.parametrize(
    ("deltas", "start", "top"),
    [([-6, -5, 3], 10, 10), ([-5, 8, -3], 2, 10), ([1, 2, 3], 4, 10), ([], 5, 5), ([4, -9], 9, 9)],
)
def test_parts_are_ordered_so_that_their_sum_stays_in_range(
    deltas: list[float], start: float, top: float
) -> None:
    order = in_range(deltas, start, top)
    assert sorted(order) == list(range(len(deltas)))
    sums = list(accumulate((deltas[i] for i in order), initial=start))
    assert all(0 <= at <= top for at in sums)


# ---------------------------------------------------------------- charts


def test_ceilings_and_the_measured_rate_stand_on_one_axis() -> None:
    (picture,) = draw_chart(material.axis())
    text = text_of(picture)
    for label in (
        "launch ceiling 116 tok/s (unprofiled)",
        "bandwidth ceiling 1850 tok/s",
        "measured 97.0 tok/s (unprofiled)",
    ):
        assert label in text
        assert label in picture.said
    assert text.count('class="ceiling"') == 2
    assert text.count("<circle") == 1


@pytest.mark.parametrize(("bandwidth", "apart"), [(1_709, True), (900_000_000, False)])
def test_labels_of_near_ceilings_are_stacked(bandwidth: float, apart: bool) -> None:
    (picture,) = draw_chart(material.axis(622, bandwidth))
    pattern = r'<text [^>]*y="(\d+)"[^>]*>(?:launch|bandwidth) ceiling'
    heights = re.findall(pattern, text_of(picture))
    assert len(heights) == 2
    assert (heights[0] != heights[1]) is apart


def test_the_grid_tells_measured_predicted_and_unknown_apart() -> None:
    (picture,) = draw_chart(material.GRID)
    text = text_of(picture)
    assert text.count('class="k-busy"') == 2
    assert text.count('class="hatch"') == 1
    # A whisker and its two ends.
    assert text.count('class="range"') == 3
    assert "predicted range 471 to 547 tok/s" in text
    assert "541 kernels" in text
    assert "it failed" in text
    assert "not recorded" in text
    # The end of the range is the scale: 547 takes the whole width of a cell.
    bars = [float(w) for w in re.findall(r'class="k-busy"[^>]* width="([\d.]+)%"', text)]
    assert bars == pytest.approx([40 * 97 / 547, 40 * 490 / 547], abs=0.005)


def test_curves_have_a_legend_of_what_is_drawn() -> None:
    (picture,) = draw_chart(material.CURVES)
    text = text_of(picture)
    assert [entry.label for entry in picture.legend] == ["eager", "launch", "bandwidth"]
    assert text.count('class="curve m-eager"') == 1
    assert text.count('class="curve m-eager dashed"') == 1
    # One point alone is a piece of its line, not a marker.
    assert text.count("<path") == 3
    assert "eager, batch 8: 640 tok/s (unprofiled)" in text


def test_a_strip_stands_for_all_steps_and_marks_the_picked_ones() -> None:
    chart = material.strip(drawn(steps=300, kernels=2))
    assert chart.bars is not None
    assert len(chart.bars.bars) <= 120
    in_order, by_length = draw_chart(chart)
    assert text_of(in_order).count("data-step") == len(chart.bars.bars)
    assert "median ▾" in text_of(in_order)
    assert "stands for 3" in text_of(by_length)
    assert len(chart.table.rows) == 300


# ---------------------------------------------------------------- lanes


@pytest.mark.parametrize("mode", ["eager", "compiled", "graph"])
def test_a_step_takes_at_most_two_thousand_marks(mode: str) -> None:
    text = text_of(draw_lanes(first(sample(mode)).shown[0].stretch))
    assert 0 < marks(text) + text.count('class="gap"') <= MOST_MARKS


def test_a_busy_recording_stays_under_the_limit() -> None:
    analysis = drawn(steps=40, kernels=200)
    assert analysis.device is not None
    end = int(analysis.device.links.end.max())
    text = text_of(draw_lanes(stretch(Scope(analysis), "all", 0, end, Names())))
    assert 0 < marks(text) <= MOST_MARKS


def marks(text: str) -> int:
    """How many strokes and outlines the lanes of a picture hold."""
    return sum(len(re.findall("[hH]", d)) for d in re.findall(r' d="([^"]+)"', text))


def test_merged_blocks_keep_the_share_of_each_kind() -> None:
    rng = np.random.default_rng(7)
    edges = np.sort(rng.uniform(0, WIDTH, 4_000))
    left, right, kind = edges[:-1], edges[1:], rng.integers(0, 4, 3_999)
    for cell in (1.0, 5.0, 40.0):
        begin, end, code = _cells(left, right, kind, cell)
        assert begin.size < left.size
        for one in range(4):
            want = (right - left)[kind == one].sum()
            assert (end - begin)[code == one].sum() == pytest.approx(want)
        # Nothing is drawn over anything else.
        order = np.argsort(begin)
        assert (begin[order][1:] - end[order][:-1] >= -1e-6).all()


def test_the_legend_names_every_cause_that_is_drawn() -> None:
    item = first(sample("eager")).shown[0].stretch
    labels = {entry.label for entry in draw_lanes(item).legend}
    for code in np.unique(item.parts.kind).tolist():
        assert CAUSE_WORDS[CAUSES[code]].label in labels


def test_the_picked_steps_stand_on_one_scale() -> None:
    found = first(sample("eager"))
    picture = small_multiples(found)
    assert picture is not None
    lengths = [v.stretch.step[1] - v.stretch.step[0] for v in found.shown if v.stretch.step]
    widths = [float(w) for w in re.findall(r'<svg viewBox[^>]* width="([\d.]+)%', text_of(picture))]
    assert widths == pytest.approx([100 * n / max(lengths) for n in lengths], abs=0.005)
    assert small_multiples(views(drawn(steps=1))) is None


def test_ticks_are_round_and_in_one_unit() -> None:
    assert round_times(0, 14_800_000, most=4) == [
        (0, "0 ms"), (5_000_000, "5 ms"), (10_000_000, "10 ms")
    ]  # fmt: skip
    assert [text for _, text in round_times(-300, 2_400, most=3)] == ["0 µs", "1 µs", "2 µs"]
