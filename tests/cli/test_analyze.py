"""`gaptrace analyze` and `gaps` as a person uses them: output, files, errors, exit codes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gaptrace.cli import COMMANDS, main
from tests.builders import events_json, mark, op

SAMPLES = Path(__file__).parents[2] / "sample_traces"
EAGER = str(SAMPLES / "small_decoder_eager.json.gz")
GRAPH = str(SAMPLES / "small_decoder_graph.json.gz")

Out = pytest.CaptureFixture[str]


def test_the_first_line_is_the_answer_then_the_verdict(capsys: Out) -> None:
    assert main(["analyze", EAGER]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].startswith("Decode: 211 tok/s, 4.74 ms per step (as profiled).")
    assert "trace ok · complete steps 7 of 8 · steps by ProfilerStep" in out
    assert "NVIDIA H200" in out
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 100
    assert "\x1b[" not in out
    assert main(["analyze", EAGER, "--full"]) == 0
    full = capsys.readouterr().out
    assert full.startswith(lines[0])
    assert "longest gaps" in full


def test_json_is_the_versioned_object(capsys: Out) -> None:
    assert main(["analyze", EAGER, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["schema"] == "gaptrace.analysis/1"
    assert summary["steps"]["median"]["kernels"] == 125


def test_several_paths_make_one_json_object(capsys: Out) -> None:
    assert main(["analyze", EAGER, GRAPH, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["schema"] == "gaptrace.analyses/1"
    assert [a["captured_share"] for a in summary["analyses"]] == [0, 1]


def test_files_are_written_whole_and_never_over_another(tmp_path: Path, capsys: Out) -> None:
    target = tmp_path / "out.json"
    assert main(["analyze", EAGER, "-o", str(target)]) == 0
    captured = capsys.readouterr()
    assert f"Wrote {target}" in captured.err
    assert json.loads(target.read_text())["schema"] == "gaptrace.analysis/1"
    assert main(["analyze", EAGER, "-o", str(target)]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["analyze", EAGER, "-o", str(target), "--force"]) == 0
    assert main(["analyze", EAGER, "-o", str(tmp_path / "x.docx")]) == 2


def test_standard_input(capsys: Out) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gaptrace", "analyze", "-", "--json"],
        input=gzip.decompress(Path(EAGER).read_bytes()),
        capture_output=True,
        check=True,
    )
    main(["analyze", EAGER, "--json"])
    piped, named = json.loads(done.stdout), json.loads(capsys.readouterr().out)
    assert piped["devices"] == named["devices"]


def test_colour_only_on_demand(capsys: Out) -> None:
    main(["analyze", EAGER, "--color", "always"])
    assert "\x1b[" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"<!doctype html><html></html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", "LFS"),
        (b'{"schema": "1.1.1", "nodes": [{"id": 1}]}', "execution trace"),
    ],
)
def test_what_is_no_trace_is_named(tmp_path: Path, capsys: Out, content: bytes, says: str) -> None:
    path = tmp_path / "thing.json"
    path.write_bytes(content)
    assert main(["analyze", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("gaptrace: error: ")
    assert says.lower() in err.lower()
    assert "hint: " in err
    assert "Traceback" not in err


def test_missing_files_and_bad_options_exit_with_2(capsys: Out) -> None:
    assert main(["analyze", "no/such/file.json"]) == 2
    assert main(["analyze", EAGER, "--device", "9"]) == 2
    assert "devices in this trace: 0" in capsys.readouterr().err
    assert main(["analyze", EAGER, "--weight-bytes", "lots"]) == 2
    assert main(["analyze"]) == 2
    assert main(["analyse", EAGER]) == 2
    assert "did you mean 'analyze'?" in capsys.readouterr().err


def test_sizes_may_carry_units(capsys: Out) -> None:
    main(["analyze", EAGER, "--json", "--weight-bytes", "1.5GB", "--peak-bandwidth", "4.8TB/s"])
    found = json.loads(capsys.readouterr().out)["ceilings"]
    assert found["weight_bytes"] == 1_500_000_000
    assert found["bandwidth_tokens_per_s"] == 3200


def test_a_lower_ceiling_that_does_not_pace_the_step_says_what_does(
    capsys: Out, tmp_path: Path
) -> None:
    """Captured, the GPU is nearly always busy; with few bytes to read launch is the lower one."""
    graph = EAGER.replace("eager", "graph")
    page = tmp_path / "graph.html"
    given = ["--weight-bytes", "1MB", "--peak-bandwidth", "4.8TB/s"]
    assert main(["analyze", graph, *given, "--full"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Lower ceiling: the launch ceiling; the measured rate is 26 % of it" in out
    assert ", but the GPU's own work paces this step (GPU busy 88 %)" in out
    assert "Limited by: the launch" not in out
    assert re.search(r"a host twice as fast [\d ,.]+ no change", out)
    assert main(["analyze", graph, *given, "-o", str(page)]) == 0
    text = page.read_text()
    assert "own work paces this step (GPU busy" in text
    assert main(["explain", "lower ceiling"]) == 0


def test_a_refused_trace_prints_and_exits_with_2(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "cpu.json"
    path.write_bytes(events_json(mark("gaptrace.step#0", at=0, dur=9), op("aten::mm", at=2, dur=3)))
    assert main(["analyze", str(path), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["quality"]["verdict"] == "refused"


def test_strict_wants_every_trace_ok(tmp_path: Path, capsys: Out) -> None:
    raw = gzip.decompress(Path(EAGER).read_bytes())
    cut = tmp_path / "cut.json"
    cut.write_bytes(raw[: len(raw) * 3 // 4])
    assert main(["analyze", str(cut)]) == 0
    assert main(["analyze", str(cut), "--strict"]) == 2
    assert main(["analyze", EAGER, "--strict"]) == 0
    assert "cut" in capsys.readouterr().out


def test_gaps_as_csv_and_json_hold_every_gap(capsys: Out) -> None:
    assert main(["gaps", EAGER, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    main(["analyze", EAGER, "--json"])
    device = json.loads(capsys.readouterr().out)["devices"][0]
    assert len(rows) == device["gaps"]
    assert sum(int(row["dur_ns"]) for row in rows) == device["idle_ns"]
    assert sum(int(row["dispatch_ns"]) for row in rows) == device["idle_by_cause_ns"]["dispatch"]
    assert main(["gaps", EAGER, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["schema"], len(body["gaps"])) == ("gaptrace.gaps/1", device["gaps"])
    assert main(["gaps", EAGER, "--top", "3"]) == 0
    title, *rows = capsys.readouterr().out.splitlines()
    assert title == "3 gaps of GPU 0, times as profiled."
    rows = [row for row in rows if row.strip()[:1].isdigit()]
    longest = sorted((int(row["dur_ns"]) for row in body["gaps"]), reverse=True)[:3]
    assert [round(ns / 1e3) for ns in longest] == [int(row.split()[0]) for row in rows]


def test_help_names_every_command_and_the_exit_codes(capsys: Out) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)
    assert "Exit codes" in text
    for name in COMMANDS:
        assert main([name, "--help"]) == 0


def test_version(capsys: Out) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("gaptrace ")


def test_completion(capsys: Out) -> None:
    assert main(["completion", "bash"]) == 0
    assert "_GAPTRACE_COMPLETE" in capsys.readouterr().out


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m gaptrace gaps {EAGER} --csv | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("gap,step,")


def test_golden_json_of_the_sample_traces(capsys: Out, pytestconfig: pytest.Config) -> None:
    """The whole JSON of each sample; `pytest --golden` writes the files anew."""
    folder = Path(__file__).parents[1] / "golden"
    for path in sorted(SAMPLES.glob("*.json.gz")):
        main(["analyze", str(path), "--json"])
        found = json.loads(capsys.readouterr().out)
        found["source"]["path"] = path.name
        golden = folder / f"{path.name.removesuffix('.json.gz')}.json"
        if pytestconfig.getoption("--golden"):
            folder.mkdir(exist_ok=True)
            golden.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        assert found == json.loads(golden.read_text()), path.name
