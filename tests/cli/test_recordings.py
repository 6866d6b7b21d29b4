"""What one recording of a run says: its notes, where it lies, what bounds its host."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gaptrace.cli import main
from gaptrace.compare.recording import record
from gaptrace.measure.options import Options
from gaptrace.measure.record import first_line
from gaptrace.runs.read import read_run
from tests.builders import events_json, mark, op
from tests.compare.runs import manifest, write_run

Out = pytest.CaptureFixture[str]
STEP = 60_007


def eager(tmp_path: Path, **over: Any) -> Path:
    """The folder of one eager recording, its unprofiled step 60,007 ns."""
    return write_run(tmp_path / "run", modes=("eager",), repeats=1, **over) / "eager/1"


def test_what_the_recorder_noted_is_shown(tmp_path: Path, capsys: Out) -> None:
    note = "steps after profiling took 1.49 times those before"
    cell = eager(tmp_path, notes=[note])
    assert main(["analyze", str(cell), "-o", str(tmp_path / "r.html"), "--full"]) == 0
    assert note in " ".join(capsys.readouterr().out.split())
    assert note in (tmp_path / "r.html").read_text()
    assert main(["analyze", str(cell), "--json"]) == 0
    quality = json.loads(capsys.readouterr().out)["quality"]
    assert quality["verdict"] == "ok"
    assert note in [reason["text"] for reason in quality["reasons"]]


def test_a_report_names_what_brings_it_back(tmp_path: Path, capsys: Out) -> None:
    """The trace alone would give profiled figures where the report has unprofiled ones."""
    cell = eager(tmp_path)
    files = [tmp_path / "r.html", tmp_path / "r.md"]
    outputs = [word for file in files for word in ("-o", str(file))]
    assert main(["analyze", str(cell), *outputs]) == 0
    for file, command in zip(files, ("gaps", "analyze"), strict=True):
        assert f"gaptrace {command} {cell}" in file.read_text()
        after = file.read_text().partition(f"gaptrace {command} ")[2][:200]
        assert f"{cell}/trace" not in after
    capsys.readouterr()
    assert main(["analyze", str(cell / "trace.json.gz")]) == 0
    assert f"`gaptrace analyze {cell}` reads the run.json beside it" in capsys.readouterr().err


def test_a_single_recording_says_what_was_to_follow(tmp_path: Path, capsys: Out) -> None:
    run = eager(tmp_path).parents[1]
    index = {"complete": False, "modes": ["eager", "graph"], "repeats": 1}
    (run / "collect.json").write_text(json.dumps(index))
    assert main(["analyze", str(run)]) == 0
    assert "missing: graph/1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("issue", "period", "held"),
    [(30_000, None, 30_000), (70_000, None, STEP), (70_000, 50_000, 50_000)],
    ids=["shorter than the step", "held to the step", "held to the host's period"],
)
def test_a_step_is_dispatched_within_itself(
    tmp_path: Path, issue: int, period: int | None, held: int
) -> None:
    """`analyze` and `compare` have one host dispatch."""
    unprofiled = manifest("eager", 1, step_ns=STEP)["unprofiled"]
    unprofiled["before"]["host_median_ns"] = period
    samples = {"scope": "step", "samples_ns": [issue - 1, issue, issue + 1]}
    cell = eager(tmp_path, unprofiled=unprofiled, issue_ns=issue, issue=samples)
    found = read_run(str(cell), Options(), use_cache=False).cells[0].analysis
    assert found is not None
    recorded = record(found)
    assert recorded.issue_ns == found.ceilings.host_dispatch_ns == held
    assert max(recorded.issue_samples) == min(issue + 1, held if held < issue else issue + 1)


def test_idle_between_graph_nodes_is_not_given_to_another_cause(tmp_path: Path) -> None:
    """Of the unprofiled idle, what is between nodes is no other cause's, be it the host or not."""
    cell = eager(tmp_path)
    found = read_run(str(cell), Options(), use_cache=False).cells[0].analysis
    assert found is not None
    idle = found.headline.unprofiled_idle_per_token
    assert idle is not None
    assert idle > 1_000
    # As profiled, which stretches what is not between nodes.
    traced = {"graph_node": 1_000, "device_wait": 2 * idle, "launch": 3 * idle}
    found.headline.idle_by_cause_ns.update(traced)
    head = first_line(found.headline)
    assert (head.largest_cause, head.largest_cause_ns) == ("launch", idle - 1_000)


def test_a_recording_on_a_cpu_is_not_asked_for_the_gpu_profiler(
    tmp_path: Path, capsys: Out
) -> None:
    cell = eager(tmp_path, device={"type": "cpu", "name": "a CPU"})
    (cell / "trace.json.gz").write_bytes(gzip.compress(events_json(op("aten::mm", at=1, dur=2))))
    assert main(["analyze", str(cell)]) == 2
    out = capsys.readouterr().out
    assert "recorded on a CPU: of this recording only the unprofiled times count" in out
    assert "ProfilerActivity" not in out


def test_a_recording_on_a_cpu_has_its_hosts_figures(tmp_path: Path, capsys: Out) -> None:
    """Two complete steps and an open one; in each two mm of 10 µs, and an add of 4 within one."""
    events = []
    for number in range(3):
        at = 100 * number
        events += [mark(f"gaptrace.step#{number}", at=at, dur=90)]
        events += [op("aten::mm", at=at + 10, dur=10), op("aten::mm", at=at + 30, dur=10)]
        events += [op("aten::add", at=at + 32, dur=4)]
    cell = eager(tmp_path, device={"type": "cpu", "name": "a CPU"})
    (cell / "trace.json.gz").write_bytes(gzip.compress(events_json(*events)))
    found = read_run(str(cell), Options(), use_cache=False).cells[0].analysis
    assert found is not None
    rows = {row.name: (row.calls, row.self_ns) for row in found.host.ops}
    unit = rows["aten::add"][1] / 4
    assert rows == {"aten::mm": (2.0, 16 * unit), "aten::add": (1.0, 4 * unit)}
    assert found.host.op_calls == 3.0
    assert found.quality.verdict == "limited"
    assert "steps" in found.quality.reasons[0].withheld
    assert main(["analyze", str(cell)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("On a CPU: ")
    assert "aten::mm" in out
    assert "GT004" not in out
