"""Every label that a text report prints can be asked: `gaptrace explain LABEL`.

The reports are printed and walked: heads of all tables, first columns of tables whose rows are
figures, words that end in a colon at the start of a line, lines that are a title alone, legends.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from gaptrace.report import palette, terminal
from gaptrace.report.text import WIDTH

from gaptrace.cli import main
from gaptrace.cli.explain import lookup
from tests.compare.runs import write_run
from tests.predict import recorded
from tests.sweep_folders import make_sweep

SAMPLES = Path(__file__).parents[2] / "sample_traces"
RENDERERS = ("text", "run_text", "predict_text", "compare_text", "sweep_text")
# Tables whose first column names figures; in all others it names kernels, ops, modes or points.
FIGURES = {"one step", "score", "What would help", "unprofiled", "as profiled", "metric"}
# At most two spaces in front: deeper lines go on with a sentence, and bullets are sentences.
LABEL = re.compile(r" {0,2}([A-Za-z][A-Za-z,/-]*(?: [A-Za-z,/-]+)*):(?: |$)")
TITLE = re.compile(r"[a-z]{3,10}(?: [a-z]{2,10}){0,4}")
SENTENCES = re.compile(r"(?:is|be) fastest|^decoder|^drawn|products tuned|^next: |^GT| against ")
Seen = dict[str, str]


class Walk:
    """The labels of everything that is printed while it watches, and where each was seen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: Seen = {}
        self.tables: set[str] = set()
        for name in RENDERERS:
            module = importlib.import_module(f"gaptrace.report.{name}")
            monkeypatch.setattr(module, "table", self._table)

    def _table(self, header: Sequence[str], rows: Sequence[Sequence[str]], **how: int) -> str:
        self._heads(header)
        if header[0] in FIGURES:
            self._heads([row[0] for row in rows], f"row of {header[0]}")
        if header[0] == "What would help":
            self._heads([row[1] for row in rows], "what is known")
        if header[-1] == "verdict":
            self._heads([row[-1].strip("▲▼=* ") for row in rows], "verdict")
        text = terminal.table(header, rows, **how)
        self.tables |= set(text.splitlines())
        return text

    def _heads(self, labels: Sequence[str], where: str = "head") -> None:
        for label in filter(None, labels):
            self.seen.setdefault(label, where)

    def lines(self, text: str) -> None:
        before = ""
        for line in text.splitlines():
            # A title begins a block; elsewhere a short line is the end of a wrapped sentence.
            # Where the first word had no room in the line before, the sentence goes on.
            goes_on = len(before) + 1 + len(line.partition(" ")[0]) > WIDTH and before
            found = (not before and TITLE.fullmatch(line)) or LABEL.match(line)
            before = line
            if found and not goes_on and line not in self.tables and not SENTENCES.search(line):
                self.seen.setdefault(found[found.re.groups], line)


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    place = tmp_path_factory.mktemp("labels")
    sweep = make_sweep(place, repeats=2, batches=(1, 8))
    run = recorded.eager_run(place, "llama4")
    (run / "eager/1/prediction.json").write_text(json.dumps(recorded.answer("llama4")))
    write_run(run, repeats=1, modes=("compiled", "compiled-graph"))
    four = write_run(place / "four", repeats=1)
    eager, compiled, graph = (
        str(SAMPLES / f"small_decoder_{mode}.json.gz") for mode in ("eager", "compiled", "graph")
    )
    square = [str(four / m) for m in ("eager", "compiled", "graph", "compiled-graph")]
    commands = [
        ["analyze", eager],
        ["analyze", compiled],
        ["analyze", graph],
        ["analyze", str(sweep)],
        ["analyze", str(sweep / "batch-1")],
        ["analyze", str(sweep / "batch-1/piecewise/1")],
        ["analyze", str(run)],
        ["gaps", eager],
        ["predict", str(run)],
        ["predict", str(sweep / "batch-1"), "--shapes"],
        ["predict", eager],
        ["compare", eager, compiled, "--fail-on", "idle:50%"],
        ["compare", square[0], square[2], "--fail-on", "kernels:5%"],
        ["compare", *square],
    ]
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("NO_COLOR", "1")
    walk = Walk(monkeypatch)
    for command in commands:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert main(command) in (0, 1), command
        assert out.getvalue(), command
        walk.lines(out.getvalue())
    monkeypatch.undo()
    return walk.seen


def test_every_label_of_the_reports_is_explained(labels: Seen) -> None:
    missing = {label: where for label, where in labels.items() if not explained(label)}
    assert not missing, "\n".join(f"{label!r}: {where}" for label, where in missing.items())


def test_the_walk_sees_every_kind_of_label(labels: Seen) -> None:
    """So that the test above cannot pass because it looked at nothing."""
    expected = {
        "GPU idle", "binds", "spread", "host", "one step", "What would help", "eager, captured",
        "measured", "in range", "95 % interval", "fused groups", "batch 256", "work in the seam",
        "start-up, s", "ceilings", "findings", "measured in pieces", "constants", "gates",
        "kernels by name", "baseline", "score", "busy time", "largest changes",
    }  # fmt: skip
    assert expected <= {label.removesuffix(", µs").removesuffix(", ms") for label in labels}
    assert len(labels) > 100


@pytest.mark.parametrize("look", [*palette.CAUSES.items(), *palette.HOST.items()])
def test_every_word_of_a_legend_is_explained(look: tuple[str, palette.Look]) -> None:
    assert explained(look[0])
    assert explained(look[1].word)


@pytest.mark.parametrize("look", [*palette.OP_CLASSES.items(), *palette.MODES.items()])
def test_every_class_and_mode_is_explained(look: tuple[str, palette.Look]) -> None:
    assert explained(look[0])
    assert explained(look[1].word)


@pytest.mark.parametrize(
    ("label", "entry"),
    [
        ("GPU idle, ms", "idle"),
        ("busy: gemm", "busy"),
        ("batch 256", "predicted-fusion"),
        ("longest gaps (counted steps)", "gap"),
        ("waiting in a sync", "sync"),
        ("captured step", "predicted-captured-step"),
        ("binds", "binding-ceiling"),
        ("spread", "spread"),
        ("eager, captured", "two-by-two"),
        ("compiled-graph", "mode"),
    ],
)
def test_what_a_report_adds_to_a_label_may_stay(label: str, entry: str) -> None:
    assert lookup(label).id == entry


def explained(label: str) -> bool:
    from gaptrace.errors import OptionError

    try:
        lookup(label)
    except OptionError:
        return False
    return True
