"""No `next:` line leads nowhere, and what is unusable ends every command with 2."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from gaptrace.cli import main
from gaptrace.errors import GaptraceError
from gaptrace.reading.loading import load
from tests.builders import events_json, kernel, launch, mark, op
from tests.dashboards.folders import make_run

SAMPLES = Path(__file__).parents[2] / "sample_traces"
TRACES = sorted(str(path) for path in SAMPLES.glob("*.json.gz"))
RUNS = sorted(str(path) for path in SAMPLES.iterdir() if any(path.glob("*/*/run.json")))
MODES = [str(SAMPLES / name) for name in ("bad_growing/graph", "bad_item/graph")]
POINT = str(SAMPLES / "sweep_1b" / "batch-256-length-512")

Out = pytest.CaptureFixture[str]


def commands(capsys: Out, *words: str) -> list[str]:
    """The commands that a command names to type next."""
    code = main([*words])
    said = capsys.readouterr()
    assert code in (0, 2), said.err
    lines = (said.out + said.err).splitlines()
    found = [line.partition("next: ")[2] for line in lines if line.startswith("next: ")]
    assert all(command.startswith("gaptrace ") for command in found)
    return found


def follow(capsys: Out, *words: str) -> int:
    """Run every command that is named next; each has to have something to say. How many."""
    found = commands(capsys, *words)
    for command in found:
        assert main(shlex.split(command)[1:]) == 0, f"{words} leads to {command}"
        assert len(capsys.readouterr().out) > 100, f"{words} leads to {command}"
    return len(found)


def test_there_are_samples_to_follow() -> None:
    assert len(TRACES) >= 3
    assert len(RUNS) >= 7


@pytest.mark.parametrize("path", [*TRACES, *RUNS, *MODES, POINT, str(SAMPLES / "sweep_1b")])
def test_what_analyze_names_next_helps(path: str, capsys: Out) -> None:
    recorded = not path.endswith(("bad_growing/graph", "bad_item/graph"))
    assert (follow(capsys, "analyze", path) > 0) == recorded


@pytest.mark.parametrize("path", [*TRACES, *RUNS, POINT])
def test_what_predict_names_next_helps(path: str, capsys: Out) -> None:
    assert follow(capsys, "predict", path, "--shapes") == 1


@pytest.mark.parametrize("path", [TRACES[0], RUNS[0]])
def test_what_a_comparison_with_itself_names_next_helps(path: str, capsys: Out) -> None:
    assert follow(capsys, "compare", path, path) == 2


def test_what_other_comparisons_name_next_helps(tmp_path: Path, capsys: Out) -> None:
    run, other = make_run(tmp_path), make_run(tmp_path, "other")
    assert follow(capsys, "compare", str(run)) == 2
    assert follow(capsys, "compare", str(run), str(other)) == 2
    assert follow(capsys, "compare", str(run / "eager"), str(run / "graph")) == 2
    base = str(tmp_path / "base.gaptrace.json")
    assert commands(capsys, "save", str(run), "-o", base)
    assert follow(capsys, "compare", base, str(run)) == 2
    # Unlike runs, forced: again they need to be.
    unlike = str(SAMPLES / "dense_1b" / "eager")
    assert follow(capsys, "compare", str(run / "eager"), unlike, "--force") == 2


def unusable(folder: Path, kind: str) -> str:
    """A trace of which no number would be right."""
    host = [op("aten::mm", at=i * 1_000, dur=500) for i in range(30)]
    if kind == "no GPU work":
        events = [mark("gaptrace.step#0", at=0, dur=900), *host]
    elif kind == "times at zero":
        events = [kernel("k", at=0, dur=100, corr=i + 1) for i in range(20)]
        events += [launch(at=0, dur=10, corr=i + 1) for i in range(20)]
        events += [op("aten::mm", at=0, dur=9), op("aten::mm", at=9_000, dur=9)]
    else:
        far = 3_600 * 10**9
        events = [kernel("k", at=far + i * 1_000, dur=100, corr=i + 1) for i in range(20)]
        events += [launch(at=i * 1_000, dur=10, corr=i + 1) for i in range(20)] + host
    path = folder / "trace.json"
    path.write_bytes(events_json(*events))
    return str(path)


KINDS = ("no GPU work", "times at zero", "clocks differ")


@pytest.mark.parametrize("kind", KINDS)
def test_every_command_on_an_unusable_trace_exits_with_2(
    kind: str, tmp_path: Path, capsys: Out
) -> None:
    path = unusable(tmp_path, kind)
    base = str(tmp_path / "base.gaptrace.json")
    for words in (
        ["analyze", path],
        ["analyze", path, "--json"],
        ["predict", path],
        ["predict", path, "--json"],
        ["compare", path, path],
        ["compare", TRACES[0], path, "--force"],
        ["gaps", path],
        ["gaps", path, "--csv"],
        ["gaps", path, "--json"],
        ["save", path, "-o", base],
    ):
        assert main(words) == 2, words
        said = capsys.readouterr()
        assert "next: gaptrace" not in said.out.replace("next: gaptrace explain", ""), words
        assert said.out or said.err.startswith("gaptrace: error: "), words
    assert not Path(base).exists()
    assert follow(capsys, "analyze", path) <= 1  # At most the page of its finding.


def test_a_run_of_which_no_mode_was_recorded_exits_with_2(capsys: Out) -> None:
    run = str(SAMPLES / "bad_item" / "graph")
    for words in (["analyze", run], ["predict", run], ["compare", run, run], ["gaps", run]):
        assert main(words) == 2, words
        assert "next: " not in capsys.readouterr().out, words


def test_a_trace_without_a_step_predicts_nothing_and_says_so(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "trace.json"
    spans = [mark(f"step[EXTEND bs=1] #{i}", at=i * 1_000, dur=900) for i in range(4)]
    calls = [launch(at=i * 1_000 + 10, dur=5, corr=i + 1) for i in range(4)]
    work = [kernel("k", at=i * 1_000 + 20, dur=400, corr=i + 1) for i in range(4)]
    path.write_bytes(events_json(*spans, *calls, *work))
    assert main(["predict", str(path)]) == 2
    said = capsys.readouterr()
    assert "next: " not in said.out
    assert "nothing can be predicted" in said.err
    assert "no step decodes" in said.out


def test_no_file_of_the_corpus_leads_nowhere(corpus: Path, capsys: Out) -> None:
    followed = 0
    for file in sorted(corpus.rglob("*.json.gz")):
        try:
            load(str(file))
        except GaptraceError:
            assert main(["analyze", os.fspath(file)]) == 2
            capsys.readouterr()
            continue
        followed += follow(capsys, "analyze", os.fspath(file))
        followed += follow(capsys, "predict", os.fspath(file), "--shapes")
    assert followed
