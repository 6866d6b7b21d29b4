"""Pages as data: what they say, that no chart offers an upload, and every empty or broken state."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dash")

from dash import dcc
from dash.development.base_component import Component

from gaptrace.document.blocks import (
    Block,
    Fact,
    Facts,
    Sentence,
    Table,
    Text,
    blocks_of,
    quantities_of,
)
from gaptrace.document.sections import ANALYSIS, PAIR, RUN, Context, remove, section
from gaptrace.document.tables import figures, table
from gaptrace.knowledge.glossary import entries
from gaptrace.quantity import COUNT, NS, TRACED, Quantity
from gaptrace_dashboards import library as library_module
from gaptrace_dashboards.app import content_key, page, shell
from gaptrace_dashboards.library import Library
from gaptrace_dashboards.routes import Desk
from gaptrace_dashboards.run_page import LIVE, TAB_SECTIONS, said, tab_content
from gaptrace_dashboards.urls import TABS, compare_url, parse, run_url
from gaptrace_dashboards.what_if import answer
from tests.builders import decode_events, kernel, mark, op
from tests.dashboards.folders import SAMPLES, write_trace


def walk(part: Any) -> Iterator[Component]:
    """Every component in a layout."""
    if isinstance(part, Component):
        yield part
        part = getattr(part, "children", None)
    if isinstance(part, (list, tuple)):
        for child in part:
            yield from walk(child)
    elif isinstance(part, Component):
        yield from walk(part)


def words(part: Any) -> str:
    """The text of a layout, fragments included, without tags."""
    found = []
    for item in walk(part):
        plain = item.to_plotly_json()["props"]
        markup = re.sub(r"</?(?:a|b|span|code)\b[^>]*>", "", str(plain.get("data-html", "")))
        found.append(unescape(re.sub(r"<[^>]+>", " ", markup)))
        children = plain.get("children")
        every = children if isinstance(children, (list, tuple)) else [children]
        found += [child for child in every if isinstance(child, str)]
    return " ".join(" ".join(found).split())


def layouts(desk: Desk, ids: dict[str, str]) -> Iterator[tuple[str, Any]]:
    eager, graph = ids["demo · eager"], ids["demo · graph"]
    yield "shell", shell()
    for href in ("/", "/glossary", "/nothing", run_url(eager), compare_url([eager, graph])):
        yield href, page(desk, parse(href))
    for name in ("demo · eager", "small_decoder_graph"):
        found = desk.library.recording(ids[name])
        assert found is not None
        analysis = desk.library.analysis(found)
        assert analysis is not None
        for tab in TABS:
            yield (
                f"{name} {tab}",
                tab_content(
                    analysis,
                    desk.library.run(found),
                    tab,
                    desk.prediction(found) if tab == "fusion" else None,
                ),
            )


def test_no_chart_offers_to_send_data_to_a_server(desk: Desk, ids: dict[str, str]) -> None:
    """Plotly can send a chart away: every picture is our own drawing, so none of its is here."""
    drawn = 0
    for _, layout in layouts(desk, ids):
        for item in walk(layout):
            assert not isinstance(item, dcc.Graph)
            drawn += str(getattr(item, "data-html", "")).count("<figure")
    assert drawn > 10


def test_stores_hold_no_data_and_every_id_is_used_once(desk: Desk, ids: dict[str, str]) -> None:
    for name, layout in layouts(desk, ids):
        seen = [item.id for item in walk(layout) if getattr(item, "id", None)]
        assert len(seen) == len(set(seen)), name
        for item in walk(layout):
            if isinstance(item, dcc.Store):
                assert isinstance(getattr(item, "data", None), (int, type(None))), name


def test_every_layout_is_plain_json(desk: Desk, ids: dict[str, str]) -> None:
    from plotly.utils import PlotlyJSONEncoder

    for name, layout in layouts(desk, ids):
        text = json.dumps(layout, cls=PlotlyJSONEncoder)
        assert len(text) < 1_500_000, name


def test_the_run_page_says_the_analysis_and_jumps_to_every_place(
    desk: Desk, ids: dict[str, str]
) -> None:
    layout = page(desk, parse(run_url(ids["demo · eager"])))
    found = desk.library.recording(ids["demo · eager"])
    assert found is not None
    analysis = desk.library.analysis(found)
    assert analysis is not None
    text = words(layout)
    assert " ".join(analysis.sentence.split()) in text
    assert "all modes eager compiled graph compiled-graph" in text
    markup = " ".join(str(getattr(item, "data-html", "")) for item in walk(layout))
    places = re.findall(r'data-from="(\d+)" data-to="(\d+)"', markup)
    evidence = [
        (str(e.start_ns), str(e.end_ns)) for f in analysis.result.findings for e in f.evidence
    ]
    assert evidence
    assert sorted(places) == sorted(evidence)
    assert 'href="#def-' not in markup


def test_a_given_step_is_on_the_page_the_tabs_and_the_square(
    desk: Desk, ids: dict[str, str]
) -> None:
    href = run_url(ids["demo · eager"], given="2.1ms")
    found = words(page(desk, parse(href)))
    assert "2.10 ms per step (given)" in found
    assert "in place of what the run itself measured, 3.00 ms" in found
    field = next(c for c in walk(page(desk, parse(href))) if getattr(c, "id", "") == "given")
    assert field.value == "2.1ms"
    recording = desk.library.recording(ids["demo · eager"])
    assert recording is not None
    run = desk.run(recording, "2.1ms")
    assert run is not None
    assert run.result is not None
    square = run.result.square
    assert (square["eager"].step_ns, square["eager"].source) == (2_100_000, "given")
    assert square["graph"].source == "unprofiled"
    # The page of another mode, and this one without the step, are as before.
    assert "(given)" not in words(page(desk, parse(run_url(ids["demo · eager"]))))
    assert "(given)" not in words(page(desk, parse(run_url(ids["demo · graph"]))))


def test_a_given_rate_is_that_of_a_bare_trace(desk: Desk, ids: dict[str, str]) -> None:
    href = run_url(ids["small_decoder_graph"], given="1900 tok/s")
    assert "1900 tok/s, 526 µs per step (given)" in words(page(desk, parse(href)))


def test_what_is_no_step_is_said_beside_its_field(desk: Desk, ids: dict[str, str]) -> None:
    found = words(page(desk, parse(run_url(ids["demo · eager"], given="2.1"))))
    assert "'2.1' has no unit: write 2.1ms" in found
    assert "(given)" not in found
    found = words(page(desk, parse(run_url(ids["demo · eager"], given="1us"))))
    assert "shorter than the GPU is busy" in found


def test_every_tab_has_content_and_is_known(desk: Desk, ids: dict[str, str]) -> None:
    assert set(TAB_SECTIONS) == set(TABS)
    shown = {name: words(layout) for name, layout in layouts(desk, ids) if name.startswith("demo")}
    assert "size of x changed" in shown["demo · eager compile"]
    assert "call to print" in shown["demo · eager compile"]
    assert "board power 210 W of 700 W" in shown["demo · eager power"]
    assert re.search(r"\b79\b.{0,40}kernels of 225 eager", shown["demo · eager fusion"])
    assert "Predicted against measured" in shown["demo · eager fusion"]
    bare = {name: words(layout) for name, layout in layouts(desk, ids) if "small" in name}
    assert "Compiled step, predicted" in bare["small_decoder_graph compile"]
    assert "No power or clock samples" in bare["small_decoder_graph power"]
    assert "already captured" in bare["small_decoder_graph fusion"]


def test_the_list_shows_every_recording_with_its_figures(desk: Desk) -> None:
    layout = page(desk, parse("/"))
    grid = next(item for item in walk(layout) if getattr(item, "id", "") == "runs-grid")
    by_name = {row["name"]: row for row in grid.rowData}
    assert len(by_name) == 7
    eager = by_name["demo · eager (×2)"]
    assert eager["kernels"] == 125
    assert eager["step_text"] == "3.00"
    assert eager["rate_text"] == "333"
    assert len(eager["spark"]) == 7
    assert by_name["demo · compiled-graph"]["verdict"] == "✕ failed"
    assert "synchronizes" in by_name["demo · compiled-graph"]["sentence"]


def test_the_comparison_shows_bridge_metrics_timelines_and_the_square(
    desk: Desk, ids: dict[str, str]
) -> None:
    runs = [ids[f"demo · {mode}"] for mode in ("eager", "compiled", "graph")]
    text = words(page(desk, parse(compare_url(runs))))
    for part in ("Bridge", "Paired metrics", "Timelines", "Kernels", "Swap (c)"):
        assert part in text
    second = words(page(desk, parse(compare_url(runs, pair=1))))
    assert second != text


def test_unlike_runs_are_refused_until_forced(tmp_path: Path) -> None:
    events = decode_events(steps=8)
    file = write_trace(tmp_path / "other.json", *events)
    file.write_bytes(
        file.read_bytes().replace(
            b'"schemaVersion": 1,',
            b'"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "B"}],',
        )
    )
    with analysed(file, SAMPLES / "small_decoder_eager.json.gz") as other:
        runs = [found.id for found in other.library.recordings()]
        refused = words(page(other, parse(compare_url(runs))))
        assert "These runs are not compared" in refused
        assert "gpu" in refused.lower()
        forced = words(page(other, parse(compare_url(runs, force=1))))
        assert "Runs are not comparable" in forced
        assert "compared because of --force: GPU: B against NVIDIA H200" in forced


def test_the_sliders_move_the_answer(desk: Desk, ids: dict[str, str]) -> None:
    found = desk.library.recording(ids["demo · eager"])
    assert found is not None
    analysis = desk.library.analysis(found)
    assert analysis is not None
    _, now, off = answer(analysis, 16, 1, 1, 0)
    _, twice, _ = answer(analysis, 16, 1, 2, 2)
    _, captured, on = answer(analysis, 4, 2, 1, 1)
    assert (off, on) == ("false", "true")
    assert now.startswith("333 tok/s, 3.00 ms per step: host 2.90 ms")
    assert twice.startswith("With a host 2.0 times as fast:")
    assert captured.startswith("With 4.0-bit weights, 2.0 times the bandwidth, one graph:")


def test_the_glossary_has_every_entry_once(desk: Desk) -> None:
    layout = page(desk, parse("/glossary"))
    markup = " ".join(str(getattr(item, "data-html", "")) for item in walk(layout))
    assert re.findall(r'id="def-([^"]+)"', markup) == [entry.id for entry in entries()]


class analysed:  # noqa: N801 (reads as a function)
    """A desk over these files, while it is needed."""

    def __init__(self, *paths: Path) -> None:
        self.library = Library(
            [str(p) for p in paths], pool=lambda: ThreadPoolExecutor(1), settled_s=0
        )

    def __enter__(self) -> Desk:
        until = time.monotonic() + 60
        while any(e.state in ("waiting", "working") for e in self.library.entries()):
            assert time.monotonic() < until
            self.library.refresh()
            time.sleep(0.02)
        return Desk(self.library)

    def __exit__(self, *_: object) -> None:
        self.library.close()


def run_words(desk: Desk) -> str:
    return words(page(desk, parse(run_url(desk.library.recordings()[0].id))))


def test_no_kernels(tmp_path: Path) -> None:
    cpu_only = [
        event
        for n in range(3)
        for event in (
            mark(f"step#{n}", at=n * 10_000, dur=8_000),
            op("aten::mm", at=n * 10_000 + 1_000, dur=5_000),
        )
    ]
    with analysed(write_trace(tmp_path / "cpu.json", *cpu_only)) as desk:
        assert "no kernel, copy or memset is in this trace" in run_words(desk)
        assert "1 recording, none with decode steps" in words(page(desk, parse("/")))


def test_no_steps(tmp_path: Path) -> None:
    lone = [kernel(f"k{i}", at=i * i * 10_000, dur=2_000 + 100 * i, corr=0) for i in range(1, 5)]
    with analysed(write_trace(tmp_path / "lone.json", *lone)) as desk:
        text = run_words(desk)
        assert "No step could be measured" in text
        assert "--step REGEX" in text


def test_one_step(tmp_path: Path) -> None:
    with analysed(write_trace(tmp_path / "one.json", *decode_events(steps=1))) as desk:
        assert "Only the last, open step is there" in run_words(desk)


def test_two_hundred_steps(tmp_path: Path) -> None:
    with analysed(write_trace(tmp_path / "many.json", *decode_events(steps=200))) as desk:
        assert "200 steps" in run_words(desk)
        assert len(desk.library.recordings()[0].row.spark) <= 60


def test_a_hundred_runs(tmp_path: Path) -> None:
    for place in range(100):
        events = decode_events(steps=3, kernels=2 + place % 3)
        write_trace(tmp_path / f"run{place:03d}.json", *events)
    with analysed(tmp_path) as desk:
        text = words(page(desk, parse("/")))
        assert "100 recordings" in text
        assert "The 40 fastest of 100 are drawn." in text


def test_a_refused_trace_says_why(tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_bytes(b"\x00\x01\x02 nothing of the kind")
    with analysed(file) as desk:
        entry = desk.library.entries()[0]
        text = words(page(desk, parse(run_url(entry.place.id))))
        assert "broken was refused." in text
        assert entry.error in text
        assert "✕ refused" in str(page(desk, parse("/"))[5].rowData)


def test_a_run_that_is_not_ready_fills_itself(tmp_path: Path) -> None:
    shutil.copyfile(SAMPLES / "small_decoder_eager.json.gz", tmp_path / "new.json.gz")
    library = Library([str(tmp_path)], pool=lambda: ThreadPoolExecutor(1), settled_s=1_000)
    desk = Desk(library)
    state = parse(run_url(library.entries()[0].place.id))
    assert "waiting to be analysed" in words(page(desk, state))
    assert "This page fills itself" in words(page(desk, state))
    library.close()


def test_a_deleted_file_is_said_and_its_figures_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_module, "LOOK_AGAIN_S", 0.0)
    file = tmp_path / "one.json.gz"
    shutil.copyfile(SAMPLES / "small_decoder_eager.json.gz", file)
    with analysed(tmp_path) as desk:
        state = parse(run_url(desk.library.recordings()[0].id))
        before = content_key(desk.library, state)
        file.unlink()
        desk.library.refresh()
        assert content_key(desk.library, state) != before
        text = run_words(desk)
        assert "The file has gone" in text
        assert "The GPU idles" in text


def test_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    with analysed(tmp_path) as desk:
        text = words(page(desk, parse("/")))
        assert "No run here yet" in text
        assert "gaptrace collect" in text


def test_a_saved_baseline_is_listed_and_compared(tmp_path: Path) -> None:
    from gaptrace.cli import main

    sample = str(SAMPLES / "small_decoder_eager.json.gz")
    base = tmp_path / "base.gaptrace.json"
    assert main(["save", sample, "-o", str(base)]) == 0
    with analysed(base, SAMPLES / "small_decoder_graph.json.gz") as desk:
        saved, graph = desk.library.recordings()
        assert saved.row.note == "saved"
        assert saved.row.headline.step_ns is not None
        assert "is a saved baseline" in words(page(desk, parse(run_url(saved.id))))
        text = words(page(desk, parse(compare_url([saved.id, graph.id]))))
        assert "Paired metrics" in text
        # The eager sample was recorded with tensor shapes, so what is predicted is compared.
        assert "Better: 2.81 ms → 499 µs per step (predicted)" in text


def test_a_mode_that_failed_says_why_and_leads_to_the_others(
    desk: Desk, ids: dict[str, str]
) -> None:
    text = words(page(desk, parse(run_url(ids["demo · compiled-graph"]))))
    assert "capture was refused: the step synchronizes" in text
    assert "Recorded modes of this run: eager, compiled, graph." in text


def test_a_bare_trace_has_its_square_with_predictions(desk: Desk, ids: dict[str, str]) -> None:
    text = words(page(desk, parse(run_url(ids["small_decoder_eager"]))))
    assert "What would help" in text
    assert "measured" in text
    assert "predicted" in text


def test_a_toy_section_reaches_its_pages_by_being_registered(
    desk: Desk, ids: dict[str, str]
) -> None:
    """Of a recording, of a run and of a pair; a long table of it is a grid."""
    toys = {ANALYSIS: run_url(ids["demo · eager"]), RUN: run_url(ids["demo · eager"].split(".")[0]),
            PAIR: compare_url([ids["demo · eager"], ids["demo · graph"]])}  # fmt: skip
    for kind, href in toys.items():

        @section(kind, "toy", "Toys")
        def build(_result: Any, _context: Context) -> Iterator[Block]:
            yield Facts((Fact(Text("toys counted"), (Quantity(8_917, COUNT),)),))
            yield table("toys", "all toys", range(40), [figures("toy", NS, lambda n: n, TRACED)])

        try:
            layout = page(desk, parse(href))
        finally:
            remove(kind, "toy")
        assert "toys counted 8917" in words(layout), kind
        grid = next(item for item in walk(layout) if getattr(item, "id", "") == "toys-grid")
        assert [row["toy"] for row in grid.rowData] == list(range(40))
        assert grid.columnDefs[0]["headerName"] == "toy, ns (as profiled)"
        assert "toys counted" not in words(page(desk, parse(href)))


def numbers(markup: str) -> Iterator[tuple[str, str, str]]:
    """Value, unit and basis of each number; those of a cell stand at its column or its row."""
    heads: list[dict[str, str]] = []
    row: dict[str, str] = {}
    column = 0
    for tag, rest in re.findall(r"<(\w+)([^>]*)>", markup):
        own = dict(re.findall(r'data-(v|unit|basis)="([^"]*)"', rest))
        if tag == "table":
            heads = []
        elif tag == "tr":
            row, column = own, 0
        elif tag == "th":
            heads.append(own)
        elif tag == "td":
            own, column = {**(heads[column] or row), **own}, column + 1
        if "v" in own:
            yield own["v"], own.get("unit", ""), own.get("basis", "")


def test_every_quantity_of_a_document_is_on_its_pages(desk: Desk, ids: dict[str, str]) -> None:
    """The same value, unit and basis, in markup or in a grid; the live timeline apart."""
    for name in ("demo · eager", "demo · graph", "small_decoder_compiled"):
        found = desk.library.recording(ids[name])
        assert found is not None
        analysis, run = desk.library.analysis(found), desk.library.run(found)
        assert analysis is not None
        layout = [
            *page(desk, parse(run_url(found.id))),
            *(tab_content(analysis, run, tab, None) for tab in TABS if tab != "ceilings"),
        ]
        shown = set()
        for item in walk(layout):
            markup = str(getattr(item, "data-html", ""))
            shown |= set(numbers(markup))
            for row in getattr(item, "rowData", None) or ():
                shown |= {(f"{v:.10g}",) for v in row.values() if isinstance(v, (int, float))}
        checked = 0
        for block in blocks_of(said(analysis, run, LIVE)):
            # What bars and findings draw stands beside them in words.
            if not isinstance(block, (Sentence, Facts, Table)):
                continue
            for one in quantities_of(block):
                if one.value is not None:
                    text = f"{one.value:.10g}"
                    alike = (text, one.unit, one.basis) in shown or (text,) in shown
                    assert alike, (name, one)
                    checked += 1
        assert checked > 200
