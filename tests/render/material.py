"""Documents to render: one by hand with every block type, recorded samples, and hostile names."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

from gaptrace.analysis import Analysis, analyze
from gaptrace.compare.compare import FORCE, CompareOptions
from gaptrace.document.blocks import (
    Bar,
    Bars,
    Block,
    Chart,
    Column,
    Document,
    Fact,
    Facts,
    FindingItem,
    Findings,
    Note,
    Panel,
    Point,
    Row,
    Section,
    Segment,
    Sentence,
    Series,
    Table,
    Text,
)
from gaptrace.document.build import document
from gaptrace.document.pictures import steps_chart
from gaptrace.document.sections import Context
from gaptrace.measure.options import Options
from gaptrace.quantity import (
    COUNT,
    NS,
    PREDICTED,
    SHARE,
    TOKENS_PER_S,
    TRACED,
    UNPROFILED,
    Quantity,
    change,
    ranged,
)
from gaptrace.reading.loading import load
from gaptrace.render.markdown import COMMENT_LIMIT, MARKER
from gaptrace.results.analysis import AnalysisResult
from gaptrace.runs.compared import compare
from gaptrace.runs.read import read_run
from gaptrace.trace import RunInfo
from tests.builders import Event, decode_events, kernel, launch, mark, op, trace_of

SAMPLES = Path(__file__).parents[2] / "sample_traces"
CLOSING = "</script><img src=x onerror=alert(1)>"
REVERSED = "gpj\u202egnp.kernel"
NUL = "a\x00b\x1b[31mc\u2028d"
MENTION = "@everyone #1 [x](http://example.com) | `code` <b>*bold*</b> ~~s~~"
SURROGATE = "half\ud800pair"
HOSTILE = (CLOSING, REVERSED, NUL, MENTION, SURROGATE, "<!--", "]]>", "${1}", "k" * 100_000)
PERSONAL: dict[str, Any] = {
    "schema": "gaptrace.run/1",
    "name": "decoder",
    "label": "Llama-style decoder",
    "mode": "eager",
    "step": {"tokens": 1, "batch": 1},
    "unprofiled": {"median_ns": 60_000},
    "issue_ns": 40_000,
    "script": {
        "path": "/home/jane/secret/script.py",
        "argv": ["--token", "hunter2", "x" * 100_000],
        "python": ["/home/jane/venv/bin/python"],
        "git": {"commit": "abc123", "branch": "topic"},
    },
    "host": {"name": "janes-machine", "user": "jane"},
    "env": {"CUDA_VISIBLE_DEVICES": "0"},
    "versions": {"torch": "2.11.0"},
}


def ns(value: float, basis: str = TRACED) -> Quantity:
    """A time."""
    return Quantity(value, NS, basis)


SYNC = Text("waiting in a sync", key="sync")


def table(id_: str = "t", **options: Any) -> Table:
    """Three rows: a column of one unit, one of words, one whose rows state their own unit."""
    return Table(
        id_,
        "a table",
        (
            Column("what", "busy"),
            Column("step", "period", NS, UNPROFILED, numeric=True),
            Column("own", numeric=True),
            Column("kernel"),
            Column("cause", look="cause"),
        ),
        (
            Row(("first", ns(4_740_000, UNPROFILED), Quantity(0.63, SHARE), name(), SYNC), SHARE),
            Row(
                (Text("second", target="s2"), ns(1_230_000, UNPROFILED), ns(8_100), None, ""),
                NS, TRACED, weak=True,
            ),
            Row(
                ("third", Quantity(None, NS, reason="no clock"), Quantity(12_345, COUNT), "x", ""),
                COUNT,
            ),
        ),
        notes=("a note with `code`",),
        **options,
    )  # fmt: skip


def name() -> Text:
    """A kernel's short and whole name."""
    return Text("nvjet 64x8", "name", "nvjet_hsh_64x8_64x16_4x1_v_bz_TNT<half>")


STACKED = Bars(
    "stack",
    "where it goes",
    (
        Bar(
            "GPU",
            (
                Segment("busy", "GPU busy", ns(1_690_000)),
                Segment("sync", "waiting in a sync", ns(2_500_000)),
                Segment("launch", "launch latency", ns(550_000), "an upper bound"),
            ),
            ns(4_740_000),
        ),
        Bar("GPU", (Segment("busy", "GPU busy", ns(2_000_000, PREDICTED)),), hatched=True),
    ),
)
BRIDGE = Bars(
    "bridge",
    "from base to cand",
    (
        Bar("baseline", (Segment("busy", "baseline", ns(10_000)),), ns(10_000)),
        Bar("idle: op dispatch", (Segment("dispatch", "d", change(-6_000, NS, TRACED)),)),
        Bar("idle: Python", (Segment("python", "p", change(-5_000, NS, TRACED)),), hatched=True),
        Bar("busy: GEMM", (Segment("gemm", "g", change(3_000, NS, TRACED)),)),
        Bar("candidate", (Segment("busy", "candidate", ns(2_000)),), ns(2_000)),
    ),
    "class",
    "bridge",
)


def rate(value: float, basis: str = UNPROFILED) -> Quantity:
    """A token rate."""
    return Quantity(value, TOKENS_PER_S, basis)


def axis(launch_rate: float = 116, bandwidth: float = 1_850, measured: float = 97) -> Chart:
    """Two ceilings and the measured rate."""
    series = (
        Series("launch ceiling", (Point(0, rate(launch_rate)),), "launch"),
        Series("bandwidth ceiling", (Point(0, rate(bandwidth, "")),), "bandwidth"),
        Series("measured", (Point(0, rate(measured)),), "measured", "marks"),
    )
    panel = Panel("", "tokens per second", "", TOKENS_PER_S, series, x_scale="log")
    return Chart("axis", "ceilings", "axis", (panel,), table("axis-table"))


GRID = Chart(
    "grid",
    "2x2",
    "grid",
    (
        Panel(
            "",
            "mode",
            "rate",
            TOKENS_PER_S,
            (
                Series(
                    "",
                    (
                        Point(0, rate(97), "541 kernels", "eager"),
                        Point(1, ranged(490, 471, 547, TOKENS_PER_S), "", "graph", hatched=True),
                        Point(2, Quantity(None, TOKENS_PER_S, reason="it failed"), "", "compiled"),
                    ),
                    style="marks",
                ),
            ),
        ),
    ),
    table("grid-table"),
)
CURVES = Chart(
    "curves",
    "over batch",
    "panels",
    (
        Panel(
            "eager",
            "batch",
            "tok/s",
            TOKENS_PER_S,
            (
                Series("eager", (Point(1, rate(97)), Point(8, rate(640))), "eager"),
                Series("launch", (Point(1, rate(116)), Point(8, rate(900))), "eager", "dashed"),
                Series("bandwidth", (Point(1, rate(1_850)),), "eager", "dotted"),
            ),
            "log",
            "log",
            ((1, "1"), (8, "8")),
        ),
    ),
    table("curves-table"),
)


def finding(id_: str, gain: float, *parts: FindingItem) -> FindingItem:
    """A finding with evidence."""
    return FindingItem(
        id_, f"title of {id_}", Quantity(gain, NS, bound="at_most"), "seen `here`", "measured", 3,
        "know", "try", "check", table(f"{id_}-evidence"), parts,
    )  # fmt: skip


def every_block() -> tuple[Block, ...]:
    """Every block type but the timeline, which needs a trace."""
    return (
        Sentence(("Lead: ", ns(4_740_000), " per step, ", Text("busy", term="busy")), "lead"),
        Facts(
            (
                Fact(Text("trace"), (Text("ok", "verdict", key="ok"),)),
                Fact(Text("steps", term="step"), (Quantity(20, COUNT), " complete")),
            ),
            line=True,
        ),
        Facts((Fact(Text("issue", term="host-dispatch"), (ns(8_600_000, UNPROFILED),)),), "facts"),
        table(),
        table("folded", folded=True),
        STACKED,
        BRIDGE,
        axis(),
        GRID,
        CURVES,
        Findings((finding("GT101", 8_100, finding("GT102", 100)), finding("GT103", 40)), left=2),
        Note(("clocks differ",), "limited", ("idle", "causes")),
        Note((), "next", commands=("gaptrace analyze x",)),
    )


def by_hand(*blocks: Block, parts: int = 0, kind: str = "run") -> Document:
    """A document by hand, with as many parts as asked for."""
    own = tuple(
        Document(
            kind="analysis",
            title=f"mode {i}",
            answer=Sentence((f"Answer of mode {i}.",), "answer"),
            identity=("eager",),
            sections=(Section(f"p{i}-s", f"Section of {i}", (Sentence((f"words of {i}",)),)),),
        )
        for i in range(parts)
    )
    return Document(
        kind=kind,
        title="by hand",
        answer=Sentence(("Decode: ", rate(97), ", 10.2 ms per token."), "answer"),
        identity=("NVIDIA H200", "torch 2.11"),
        sections=(Section("s1", "First", blocks or every_block()), Section("s2", "Second", ())),
        result={"schema": "by hand", "name": CLOSING},
        parts=own,
    )


# ---------------------------------------------------------------- recorded and drawn


@cache
def sample(mode: str) -> Analysis:
    """A recorded decode loop: `eager`, `compiled` or `graph`."""
    return analyze(load(SAMPLES / f"small_decoder_{mode}.json.gz"))


@cache
def drawn(**options: Any) -> Analysis:
    """A drawn loop of equal steps."""
    return analyze(trace_of(*decode_events(**options)))


@cache
def without_gpu() -> Analysis:
    """A recording in which nothing ran on a GPU."""
    return analyze(trace_of(mark("gaptrace.step#0", at=0, dur=50), op("aten::mm", at=5, dur=9)))


@cache
def personal() -> Analysis:
    """A drawn loop with a manifest that names a person, a host, paths and 100 kB of arguments."""
    trace = trace_of(*decode_events(steps=8))
    run = RunInfo("/home/jane/runs/secret/eager/1", PERSONAL)
    return analyze(dataclasses.replace(trace, run=run))


@cache
def hostile() -> Analysis:
    """Eight steps whose kernels, ops, calls and marks are named to break a page."""
    events: list[Event] = []
    corr, at = 1, 0
    for step in range(8):
        inside: list[Event] = []
        begin = at
        for name_ in HOSTILE:
            inside += [
                op(name_, at=at + 1_000, dur=2_000),
                launch(at=at + 1_500, dur=1_000, corr=corr),
                kernel(name_, at=at + 3_000, dur=2_000, corr=corr),
            ]
            corr, at = corr + 1, at + 5_000
        events += [mark(f"gaptrace.step#{step}", at=begin, dur=at - begin), *inside]
        at += 5_000
    data = {**PERSONAL, "name": CLOSING, "label": f"{REVERSED}{CLOSING}", "unprofiled": None}
    trace = dataclasses.replace(trace_of(*events), run=RunInfo("/home/jane/runs/secret/x/1", data))
    return analyze(trace)


def doc(analysis: Analysis, context: Context | None = None) -> Document:
    """The full document of an analysis, with its pictures."""
    result: AnalysisResult = analysis.result
    return document(result, context or Context(analyses=analysis.analyses))


@cache
def run_doc() -> Document:
    """A recorded run of four modes."""
    run = read_run(str(SAMPLES / "dense_1b"), Options(), use_cache=False)
    return document(run.result, Context(analyses=run.analyses))


@cache
def pair_doc() -> Document:
    """The eager sample against the compiled one."""
    return _compared("eager", "compiled")


@cache
def two_pairs() -> Document:
    """The eager sample against two others."""
    return _compared("eager", "compiled", "graph")


def _compared(*modes: str) -> Document:
    analyses = [sample(mode) for mode in modes]
    found = compare(analyses, CompareOptions(unlike=FORCE, resamples=200))
    context = Context(analyses={analysis.path: analysis for analysis in analyses})
    return document(found, context)


def strip(analysis: Analysis) -> Chart:
    """The chart of an analysis' steps."""
    (chart,) = [b for b in steps_chart(analysis, Context()) if isinstance(b, Chart)]
    return chart


def assert_fit_for_a_comment(text: str) -> None:
    """Markdown that GitHub takes and a bot finds again: marker, folds, code and tables whole."""
    assert len(text) < COMMENT_LIMIT
    assert text.startswith(f"{MARKER}\n")
    assert text.count(MARKER) == 1
    assert text.count("<details>") == text.count("</details>")
    assert text.count("\n```") % 2 == 0
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("| "):
            block.append(line)
        elif block:
            assert len({row.count("|") for row in block}) == 1, block
            block = []
