"""A sweep on the command line: one table, every form of file, gates, and commands for one run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gaptrace.cli import main
from gaptrace.document.blocks import Detail, Table, blocks_of
from gaptrace.document.build import document
from gaptrace.document.sections import Context
from gaptrace.document.sweep import axis, rate_panels
from gaptrace.errors import NotATraceError
from gaptrace.measure.options import Options
from gaptrace.reading.runfolder import is_run_folder, is_sweep, read_run_folder, read_sweep
from gaptrace.render.drawing.curves import MARKERS, TICKS
from gaptrace.render.tables import text_table
from gaptrace.runs.read import read_points
from tests.sweep_folders import folder_name, make_sweep, manifest, step_of

Out = pytest.CaptureFixture[str]
OPTIONS = Options()
FEW = ("eager", "compiled", "compiled-graph")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three batches, six modes, two repeats; `piecewise` failed at the largest batch."""
    return make_sweep(tmp_path_factory.mktemp("runs"), failed="piecewise")


def test_points_are_ordinary_runs(sweep: Path) -> None:
    assert is_sweep(sweep)
    assert not is_run_folder(sweep)
    found = read_sweep(sweep)
    assert found.name == "decoder"
    assert [(p.name, p.batch, p.length) for p in found.points] == [
        ("batch-1", 1, None),
        ("batch-8", 8, None),
        ("batch-64", 64, None),
    ]
    assert is_run_folder(sweep / "batch-8")
    assert not is_sweep(sweep / "batch-8")
    assert read_run_folder(sweep / "batch-8").name == "decoder/batch-8"
    assert found.points[0].run.modes == (
        "eager", "compiled", "graph", "compiled-graph", "piecewise", "max-autotune",
    )  # fmt: skip


def test_points_of_length_and_of_both(tmp_path: Path) -> None:
    both = make_sweep(tmp_path, batches=(8, 1), lengths=(512, 128), modes=("eager",), repeats=1)
    assert [(p.batch, p.length) for p in read_sweep(both).points] == [
        (1, 128),
        (8, 128),
        (1, 512),
        (8, 512),
    ]
    lengths = make_sweep(tmp_path, "l", batches=(None,), lengths=(128,), modes=("eager",))
    assert [p.name for p in read_sweep(lengths).points] == ["length-128"]


def test_a_run_that_happens_to_be_called_so_is_no_point(tmp_path: Path) -> None:
    """Runs named batch-8 in one folder are runs: their manifests do not call them points."""
    cell = tmp_path / "batch-8" / "eager" / "1"
    cell.mkdir(parents=True)
    data = manifest("batch-8", "eager", 1, 1, None, None)
    (cell / "run.json").write_text(json.dumps(data))
    assert not is_sweep(tmp_path)
    with pytest.raises(NotATraceError) as caught:
        read_run_folder(tmp_path)
    assert caught.value.hint == "name what is in it: batch-8"


def test_a_folder_of_sweeps_names_them(sweep: Path) -> None:
    with pytest.raises(NotATraceError) as caught:
        read_run_folder(sweep.parent)
    assert caught.value.hint == "name what is in it: decoder"


def test_the_table_has_every_mode_at_every_point(sweep: Path, capsys: Out) -> None:
    assert main(["analyze", str(sweep)]) == 0
    out = capsys.readouterr().out
    first = out.split("\n\n", maxsplit=1)[0].replace("\n", " ")
    assert first.startswith("decoder: at batch 1 max-autotune is fastest, 2200 tok/s")
    assert first.endswith(".")
    assert "batch-64/piecewise: out of memory" in out
    found = read_points(str(sweep), OPTIONS, use_cache=False)
    for detail in Detail:
        whole = document(found, Context(detail))
        tables = {b.id: b for b in blocks_of(whole) if isinstance(b, Table)}
        rows = tables["figures"].rows
        place = [row.key for row in rows]
        modes = read_run_folder(sweep / "batch-1").modes
        assert place == [mode for mode in modes for _ in range(3)]
        points = zip(place, [1, 8, 64] * 6, strict=True)
        texts = dict(zip(points, text_table(tables["figures"]).rows, strict=True))
        assert texts["eager", 8][:4] == ("eager", "8", "1850", "4320")
        assert {"125", "126"} <= set(texts["eager", 8])
        assert texts["piecewise", 64][-1] == "mode failed: out of memory"
        starts = dict(zip([r.key for r in tables["starts"].rows], text_table(tables["starts"]).rows,
                          strict=True))  # fmt: skip
        assert {"20.0", "3.00"} <= set(starts["compiled"])
        assert "0.500" in starts["eager"]
        assert "Triton template 2, cuBLAS 1" in starts["max-autotune"]


def test_figures_are_those_of_the_point_alone(sweep: Path) -> None:
    """Every figure of a row is what the run at that point says by itself."""
    from gaptrace.runs.read import read_run

    found = read_points(str(sweep), OPTIONS, use_cache=False)
    run = read_run(str(sweep / "batch-8"), OPTIONS, use_cache=False)
    rows = {row.mode: row for row in found.rows if row.batch == 8}
    assert list(rows) == list(run.modes)
    for mode, row in rows.items():
        alone = run.representative(mode)
        assert alone is not None
        assert row.tokens_per_s == alone.headline.rate.tokens_per_s
        assert row.step_ns == step_of(mode, 8)
        assert row.kernels == alone.headline.steps["kernels"].median
        assert row.launches == alone.headline.steps["launches"].median
        assert row.launch_tokens_per_s == alone.ceilings.launch_tokens_per_s
        assert row.bandwidth_tokens_per_s == alone.ceilings.bandwidth_tokens_per_s
        assert row.binding == alone.ceilings.binding
    assert rows["graph"].replays == rows["graph"].launches == 1
    assert rows["piecewise"].replays == 5
    assert rows["eager"].replays == 0
    assert rows["max-autotune"].choices == {"Triton template": 2, "cuBLAS": 1}
    assert rows["eager"].step_spread == pytest.approx(500 / step_of("eager", 8))


def test_savings_grow_with_the_batch_as_predict_says(sweep: Path) -> None:
    from gaptrace.predict import PredictOptions, predict_run
    from gaptrace.runs.read import read_run

    found = read_points(str(sweep), OPTIONS, use_cache=False)
    run = read_run(str(sweep / "batch-1"), OPTIONS, use_cache=False)
    savings = predict_run(run, PredictOptions((1, 8, 64))).savings
    assert savings is not None
    by_batch = {item.batch: item for item in found.savings}
    assert {b: item.predicted_ns for b, item in by_batch.items()} == {
        b: savings.at_batch[str(b)].time_ns for b in (1, 8, 64)
    }
    assert by_batch[64].predicted_ns > by_batch[1].predicted_ns
    assert by_batch[64].predicted_bytes == pytest.approx(64 * by_batch[1].predicted_bytes)
    assert {item.predicted_from for item in found.savings} == {"batch-1"}
    eager, compiled = (run.representative(mode) for mode in ("eager", "compiled"))
    busy = [a.headline.steps["busy_ns"].median for a in (eager, compiled)]
    assert by_batch[1].realised_ns == busy[0] - busy[1]
    assert by_batch[1].realised_from == "eager − compiled"


def test_json_is_versioned_and_whole(sweep: Path, capsys: Out) -> None:
    assert main(["analyze", str(sweep), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "gaptrace.sweep/1"
    assert [point["batch"] for point in data["points"]] == [1, 8, 64]
    assert len(data["rows"]) == 18
    row = next(r for r in data["rows"] if (r["mode"], r["batch"]) == ("compiled", 8))
    assert row["startup"]["cold_ns"] == 20e9
    assert row["startup"]["warm_ns"] == 3e9
    assert row["step_ns"] == step_of("compiled", 8)
    failed = next(r for r in data["rows"] if (r["mode"], r["batch"]) == ("piecewise", 64))
    assert (failed["status"], failed["tokens_per_s"]) == ("mode_failed", None)
    assert failed["reason"] == "out of memory"


@pytest.mark.parametrize("ending", [".html", ".md", ".svg", ".json", ".txt"])
def test_every_form_of_file(sweep: Path, tmp_path: Path, capsys: Out, ending: str) -> None:
    target = tmp_path / f"out{ending}"
    assert main(["analyze", str(sweep), "-o", str(target), "--redact"]) == 0
    text = target.read_text("utf-8")
    assert "max-autotune" in text
    assert str(sweep.parent) not in text
    capsys.readouterr()


def test_curves_hold_every_measured_point(sweep: Path, tmp_path: Path, capsys: Out) -> None:
    target = tmp_path / "out.svg"
    assert main(["analyze", str(sweep), "-o", str(target)]) == 0
    capsys.readouterr()
    text = target.read_text("utf-8").replace("\u202f", " ")
    titles = re.findall(r"<title>([^<]*)</title>", text)
    # Six modes, three batches, one of them failed: rates and idle; measured and predicted.
    assert sum("1,852" in title or "1850" in title for title in titles) >= 1
    for style in ("dashed", "dotted"):
        assert f'class="curve m-eager {style}"' in text
    panels = rate_panels(read_points(str(sweep), OPTIONS, use_cache=False))
    assert sum(len(panel.series[0].points) for panel in panels) == 17


def test_along_length_where_only_that_varies(tmp_path: Path) -> None:
    lengths = make_sweep(tmp_path, batches=(None,), lengths=(128, 512), modes=FEW, repeats=1)
    found = read_points(str(lengths), OPTIONS, use_cache=False)
    assert axis(found) == "length"
    assert [panel.title for panel in rate_panels(found)] == list(FEW)
    both = make_sweep(tmp_path, "b", batches=(1, 8), lengths=(128, 512), modes=FEW, repeats=1)
    found = read_points(str(both), OPTIONS, use_cache=False)
    assert axis(found) == "batch"
    panels = list(rate_panels(found))
    assert [panel.title for panel in panels[:2]] == ["eager · length 128", "compiled · length 128"]
    assert len(panels) == 6


def test_one_point_is_a_sweep_too(tmp_path: Path, capsys: Out) -> None:
    one = make_sweep(tmp_path, batches=(8,), modes=FEW, repeats=1)
    target = tmp_path / "one.html"
    assert main(["analyze", str(one), "-o", str(target)]) == 0
    assert capsys.readouterr().out.startswith("decoder: at batch 8 compiled-graph is fastest")
    drawn = target.read_text("utf-8")
    # A tick of each ceiling for every mode, not its marker.
    panels = sum(drawn.count(f'd="{tick}"') for tick in TICKS.values())
    assert panels >= 6
    assert not set(TICKS.values()) & set(MARKERS.values())
    numbers = re.findall(r' (?:x1?|y1?|x2|y2|cx|cy)="([^"]*)"', target.read_text("utf-8"))
    assert numbers
    assert all(re.fullmatch(r"-?[\d.]+%?", number) for number in numbers)


def test_a_sweep_in_which_nothing_ran(tmp_path: Path, capsys: Out) -> None:
    none = make_sweep(tmp_path, batches=(8,), modes=("eager",), repeats=1, failed="eager")
    assert main(["analyze", str(none)]) == 2
    assert "no mode of this sweep could be measured" in capsys.readouterr().out
    assert main(["analyze", str(none), "-o", str(tmp_path / "x.svg")]) == 2
    capsys.readouterr()
    assert main(["analyze", str(none), "--full"]) == 2
    assert "no point of this sweep has a figure to draw" in capsys.readouterr().out


def test_gates_are_for_one_point(
    sweep: Path, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["analyze", str(sweep), "--fail-on", "idle_share:40%"]) == 2
    err = capsys.readouterr().err
    assert "--fail-on does not apply" in err
    assert f"hint: gate one point: gaptrace analyze {sweep}/POINT" in err
    point = str(sweep / "batch-8" / "eager")
    assert main(["analyze", point, "--fail-on", "idle_share:40%"]) == 1
    capsys.readouterr()
    (tmp_path / "pyproject.toml").write_text('[tool.gaptrace.analyze]\nfail-on = ["kernels:5"]\n')
    monkeypatch.chdir(tmp_path)
    assert main(["analyze", str(sweep)]) == 0
    assert "gates in pyproject.toml are not applied to sweeps" in capsys.readouterr().err


def test_strict_looks_at_every_trace(sweep: Path, tmp_path: Path, capsys: Out) -> None:
    assert main(["analyze", str(sweep), "--strict"]) == 0
    bad = make_sweep(tmp_path, batches=(8,), modes=("eager",), repeats=1)
    path = bad / "batch-8" / "eager" / "1" / "trace.json.gz"
    import gzip

    raw = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(raw[: len(raw) * 3 // 4]))
    assert main(["analyze", str(bad), "--strict"]) == 2
    assert "--strict" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ["predict", "SWEEP"],
        ["save", "SWEEP", "-o", "OUT.gaptrace.json"],
        ["gaps", "SWEEP"],
    ],
)
def test_commands_for_one_run_name_the_points(
    sweep: Path, tmp_path: Path, capsys: Out, args: list[str]
) -> None:
    words = [a.replace("SWEEP", str(sweep)).replace("OUT", str(tmp_path / "o")) for a in args]
    assert main(words) == 2
    err = capsys.readouterr().err
    assert "is a sweep of 3 points" in err
    assert f"hint: name a point: {sweep / 'batch-1'}" in err


def test_a_point_can_be_compared_and_analysed(sweep: Path, capsys: Out) -> None:
    assert main(["analyze", str(sweep / "batch-8")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("decoder/batch-8: max-autotune is fastest")
    assert main(["analyze", str(sweep / "batch-8"), "--full"]) == 0
    full = " ".join(capsys.readouterr().out.split())
    assert "86.4" in full
    assert "14,800,000" in full
    assert main(["compare", str(sweep / "batch-8"), "--json"]) == 0
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    assert "piecewise" in {pair["candidate"]["mode"] for pair in pairs}


def test_several_results_beside_a_sweep(sweep: Path, tmp_path: Path, capsys: Out) -> None:
    both = [str(sweep), str(sweep / "batch-1")]
    assert main(["analyze", *both, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [item["schema"] for item in data["analyses"]] == ["gaptrace.sweep/1", "gaptrace.runs/1"]
    assert main(["analyze", *both, "-o", str(tmp_path / "x.html")]) == 0
    assert "at batch 1 max-autotune is fastest" in (tmp_path / "x.html").read_text("utf-8")


def test_the_dashboard_finds_the_points(sweep: Path) -> None:
    places = pytest.importorskip("gaptrace_dashboards.places")
    found = places.find_places([str(sweep)])
    assert [place.name for place in found] == ["batch-1", "batch-64", "batch-8"]
    assert {place.kind for place in found} == {places.RUN}
    assert folder_name(8, None) == "batch-8"
