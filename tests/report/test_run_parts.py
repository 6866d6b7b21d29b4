"""What the recorder adds to a run: the same parts in the terminal, in Markdown and in HTML."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from gaptrace import units
from gaptrace.measure.analyze import analyze
from gaptrace.reading.loading import load
from gaptrace.reading.manifest import Manifest
from gaptrace.report.files import render_report
from gaptrace.report.privacy import Privacy
from gaptrace.report.run_parts import host_words, piece_words, run_parts, seam_rows
from gaptrace.report.run_text import run_report
from gaptrace.report.sweep_text import start_words
from gaptrace.runs.run import CellResult, RunAnalysis, step_ns
from gaptrace.runs.startup import ModeStart
from gaptrace.units import THIN
from tests.builders import trace_of
from tests.report.material import PERSONAL, SAMPLES, run, sample, with_manifest
from tests.sweep_folders import manifest, pieces_events

BUCKETS = {
    "sizes": [128, 512],
    "this": None,
    "source": "growing inputs",
    "padded": ["mask"],
    "prepared": [
        {
            "size": 512,
            "prepare_ns": 5,
            "first_call_ns": 3_000_000_000,
            "compile_seconds": 2.5,
            "capture_ns": 40_000_000,
            "memory_bytes": 64_000_000,
        },
        {"size": 128, "first_call_ns": 1_000_000_000, "compile_seconds": None},
    ],
    "shared_pool": True,
    "steps": [],
    "padding_share": 0.25,
    "median_ns": {"128": 400_000, "512": 600_000},
}
TREES = {"recordings": 3, "rerecordings": 0, "partitions": 2, "skips": 1, "skip_reasons": []}


def recorded(**modes: dict[str, Any]) -> RunAnalysis:
    """One cell a mode, its manifest that of a sweep's point with more in it."""
    cells = []
    for name, more in modes.items():
        mode = name.replace("_", "-")
        data = {**manifest("decoder", mode, 1, 1, None, None), **more}
        found = analyze(trace_of(*pieces_events())) if mode == "piecewise" else sample("graph")
        cells.append(CellResult(mode, 1, f"runs/x/{mode}/1", "ok", "", Manifest.of(data), found))
    return RunAnalysis("decoder", "runs/x", tuple(cells))


@pytest.fixture(scope="module")
def everything() -> RunAnalysis:
    """Four modes that recorded something each."""
    return recorded(
        eager={}, piecewise={}, compiled_graph={"buckets": BUCKETS, "cudagraph_trees": TREES},
        max_autotune={},
    )  # fmt: skip


def test_an_older_run_has_no_such_parts() -> None:
    assert run_parts(run()) == []


def test_parts_in_their_order(everything: RunAnalysis) -> None:
    titles = [part.title for part in run_parts(everything)]
    assert titles == ["start-up, s", "pieces", "buckets", "autotuning", "graph trees"]


def test_buckets_say_what_each_costs(everything: RunAnalysis) -> None:
    part = next(part for part in run_parts(everything) if part.title == "buckets")
    assert [row[:3] for row in part.rows] == [
        ["compiled-graph", "128", "400 µs"],
        ["compiled-graph", "512", "600 µs"],
    ]
    assert part.rows[1][3:] == ["3.00 s", "2.50 s", "40.0 ms", "64.0 MB"]
    assert part.rows[0][4:] == ["–", "–", "–"]
    assert part.lines == ["compiled-graph: 25 % of the positions read are padding"]


def test_choices_and_templates(everything: RunAnalysis) -> None:
    part = next(part for part in run_parts(everything) if part.title == "autotuning")
    assert part.rows[1] == [
        "mm", "1×2048 by 2048×4096", "kernel_1", "Triton template", "2.00 µs", "4.00 µs", "20",
    ]  # fmt: skip
    assert "max-autotune: 3 products tuned: Triton template 2, cuBLAS 1" in part.lines
    assert any("0 with a prologue and 1 with an epilogue" in line for line in part.lines)


def test_graph_trees_in_a_line(everything: RunAnalysis) -> None:
    part = next(part for part in run_parts(everything) if part.title == "graph trees")
    (line,) = part.lines
    assert line == "compiled-graph: graphs recorded 3, recorded again 0, partitions 2, given up 1"


def test_nothing_was_tuned_is_said_with_the_reason() -> None:
    tuned = {"skipped": "the batch is above --autotune-max-batch", "choices": [], "note": None}
    (part,) = [p for p in run_parts(recorded(max_autotune={"autotune": tuned}))
               if p.title == "autotuning"]  # fmt: skip
    assert part.rows == []
    assert part.lines == [
        "max-autotune: nothing was tuned: the batch is above --autotune-max-batch"
    ]


@pytest.mark.parametrize("ending", [".txt", ".md", ".html"])
def test_every_form_says_the_same(everything: RunAnalysis, ending: str) -> None:
    text = render_report(f"x{ending}", everything, Privacy.OPEN)
    flat = re.sub(r"&#\d+;", "-", " ".join(text.split()))
    for words in (
        "5 pieces, 5 captured",
        "25 % of the positions read are padding",
        "64.0 MB",
        "1 template kernels",
        "given up 1",
    ):
        assert words in flat, words


@pytest.mark.parametrize(
    "broken",
    [
        {"buckets": {"sizes": None, "prepared": None, "median_ns": None}},
        {"buckets": {"sizes": [128], "prepared": [{"size": 128}], "median_ns": {}}},
        {"autotune": {"choices": [{}], "templates": [None]}},
        {"autotune": {"choices": [{"shapes": "x", "ns": None}]}},
        {"piecewise": {"pieces": None}},
        {"piecewise": {"pieces": 3, "split_at": None, "copied_inputs": None, "copied_bytes": 4}},
        {"cudagraph_trees": {}},
        {"startup": {"cache": None, "ready_ns": None}},
    ],
)
def test_half_a_manifest_is_no_error(broken: dict[str, Any]) -> None:
    text = render_report("x.txt", recorded(max_autotune=broken), Privacy.OPEN)
    assert "max-autotune" in text
    assert "None" not in text


def test_modes_can_be_read_on_both_backgrounds() -> None:
    """4.5 to 1 for words in a mode's colour; every mode has a marker of its own."""
    from gaptrace.reading.runfolder import MODES
    from gaptrace.report import palette
    from gaptrace.report.patterns import NEUTRALS
    from gaptrace.report.sweep_plot import SHAPES

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    assert tuple(palette.MODES) == MODES
    assert len({look.pattern for look in palette.MODES.values()}) == len(MODES)
    assert {look.pattern for look in palette.MODES.values()} == set(SHAPES)
    for look in palette.MODES.values():
        for colour, ground in zip((look.light, look.dark), NEUTRALS["bg"], strict=True):
            low, high = sorted((luminance(colour), luminance(ground)))
            assert (high + 0.05) / (low + 0.05) >= 4.5, look.word


def timed_run() -> RunAnalysis:
    """Eager with 40 µs of unprofiled issue in steps of 60; compiled as profiled alone."""
    eager = analyze(with_manifest(load(SAMPLES / "small_decoder_eager.json.gz"), PERSONAL))
    cells = [
        CellResult(mode, 1, f"runs/x/{mode}/1", "ok", "", Manifest(None), analysis)
        for mode, analysis in (("eager", eager), ("compiled", sample("compiled")))
    ]
    return RunAnalysis("decoder", "runs/x", tuple(cells))


@pytest.mark.parametrize("ending", [".txt", ".md", ".html"])
def test_the_host_has_one_basis_in_every_form(ending: str) -> None:
    found = timed_run()
    profiled = sample("compiled").headline.steps["host_dispatch_ns"].median
    text = render_report(f"x{ending}", found, Privacy.OPEN).replace("&#8201;", THIN)
    assert host_words(found.cells[0].analysis) == "40.0 µs"  # type: ignore[arg-type]
    if ending == ".html":
        unit = units.time_unit(max(ns for a in found.repeats("compiled") if (ns := step_ns(a))))
        wanted = [units.time_value(40_000, unit), f"{units.time_value(profiled, unit)} as profiled"]
    else:
        wanted = ["40.0 µs", f"{units.time(profiled)} as profiled"]
    assert all(words in text for words in wanted)


def test_an_upper_bound_of_the_host_reads_so() -> None:
    eager = sample("eager")
    limits = dataclasses.replace(
        eager.ceilings,
        host_dispatch_ns=5e6,
        host_dispatch_source="unprofiled step, its upper bound",
    )
    assert host_words(dataclasses.replace(eager, ceilings=limits)) == f"≤ {units.time(5e6)}"


def test_the_idle_of_a_kind_of_seams_is_its_mean() -> None:
    found = analyze(trace_of(*pieces_events())).piecewise
    assert found is not None
    kind = dataclasses.replace(
        found.kinds[0], per_step=16, idle_ns=52_200, idle_per_step_ns=952_000
    )
    found = dataclasses.replace(found, seams=16, idle_ns=952_000, kinds=(kind,))
    assert seam_rows(found)[0][3] == "59.5 µs"
    assert "as profiled, 952 µs per step" in piece_words(found)
    assert "a mean of 59.5 µs each" in piece_words(found)


def test_counts_of_a_batch_are_per_step() -> None:
    """Eight tokens a step leave kernels and launches of a step as they are."""
    graph = sample("graph")
    batch = dataclasses.replace(graph.headline, tokens_per_step=8, per_token={
        name: dataclasses.replace(spread, median=(spread.median or 0) / 8)
        for name, spread in graph.headline.per_token.items()
    })  # fmt: skip
    cell = CellResult(
        "graph", 1, "x/graph/1", "ok", "", Manifest(None),
        dataclasses.replace(graph, headline=batch),
    )  # fmt: skip
    text = run_report(RunAnalysis("decoder", "x", (cell,)), color=False)
    row = next(line for line in text.splitlines() if line.startswith("graph "))
    assert re.search(r" 126 +1 ", row.replace(THIN, ""))
    assert "kernels, launches and host dispatch per step" in text


def test_the_speed_table_comes_before_starts_and_pieces(everything: RunAnalysis) -> None:
    html = render_report("x.html", everything, Privacy.OPEN)
    assert 0 < html.index('id="recordings"') < html.index('id="run-0"')


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ({"uncached_ns": 5e8}, ("no cache", "0.50")),
        ({"cold_ns": 2e10, "warm_ns": 3e9}, ("20.0", "3.00")),
        ({"partly_ns": 3e9}, ("–", "3.00 partly")),
        ({}, ("–", "–")),
    ],
)
def test_a_start_is_said_once(start: dict[str, float], said: tuple[str, str]) -> None:
    none = dict.fromkeys(field.name for field in dataclasses.fields(ModeStart))
    assert start_words(ModeStart(**{**none, "starts": 1, **start})) == said  # type: ignore[arg-type]
