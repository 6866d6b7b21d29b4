"""The reference workloads run at their tiny sizes, and the tools around them do what they say."""

import gzip
import json

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from tests.collectors.conftest import QUICK, WORKLOADS, environment  # noqa: E402


@pytest.fixture
def run(warm_python, tmp_path):
    """Runs a workload as `python WORKLOAD WORDS...` would."""

    def run_workload(script, *words):
        path = WORKLOADS / f"{script}.py"
        return warm_python().run((path, *words), cwd=tmp_path, env=environment(), timeout=300)

    return run_workload


@pytest.mark.parametrize(
    "words",
    [
        ("dense_decoder", "--tiny", "--batch", "3"),
        ("stacked_cache", "--tiny"),
        ("stacked_cache", "--tiny", "--int4"),
        ("growing_cache", "--tiny"),
        ("item_per_step", "--tiny"),
        ("recompile_per_token", "--tiny"),
        pytest.param(("hybrid", "--tiny"), marks=pytest.mark.slow),
        pytest.param(("gpt2", "--tiny"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_each_runs_as_a_plain_script(run, words):
    if words[0] in ("hybrid", "gpt2"):
        pytest.importorskip("transformers")
    done = run(*words, "--steps", 3)
    assert done.returncode == 0, done.stderr
    assert "ms per step" in done.stdout


def test_int4_weights_are_counted_packed(bench):
    words = ("--tiny", "--layers", "1", "--int4")
    done = bench.collect("--modes", "eager", *QUICK, WORKLOADS / "stacked_cache.py", *words)
    assert done.code == 0, done.stderr
    counted = done.run("eager")["bytes"]
    weights = 4 * 256 * 256 + 3 * 256 * 512
    assert counted["buffers"]["int4 (packed)"] == weights // 2
    scales = weights // 128 * 2 * 2  # a scale and a zero in bf16 for each group of 128
    head, norms = 256 * 256 * 2, 3 * 256 * 2
    assert counted["weights_read_per_step"] == weights // 2 + scales + head + norms
    assert counted["kv_read_per_step"] == 2 * 2 * 128 * 256


def test_the_stacked_cache_is_one_tensor(warm_python, tmp_path):
    code = tmp_path / "look.py"
    code.write_text(
        f"import sys; sys.path.insert(0, {str(WORKLOADS)!r}); sys.argv[1:] = ['--tiny']\n"
        "import stacked_cache as w\n"
        "step = w.build(); step(); step()\n"
        "shapes = {n: tuple(b.shape) for n, b in step.model.named_buffers() if 'cache' in n}\n"
        "print(shapes, int((step.model.k_cache[:, 0, 0, :, 0] != 0).sum()))\n"
    )
    done = warm_python().run([code], cwd=tmp_path, env=environment(), timeout=120)
    assert done.returncode == 0, done.stderr
    shape = (2, 1, 2, 128, 128)
    assert (
        done.stdout.strip() == str({"k_cache": shape, "v_cache": shape}) + " 4"
    )  # layers x tokens


def test_independent_timing_knows_nothing_of_gaptrace(run):
    done = run("independent_timing", "--size", "tiny", "--modes", "eager", "--rounds", "2")
    assert done.returncode == 0, done.stderr
    eager = json.loads(done.stdout)["modes"]["eager"]
    assert len(eager["rounds_ms"]) == 2
    assert eager["median_ms"] > 0
    text = (WORKLOADS / "independent_timing.py").read_text().split('"""')[2]
    assert "gaptrace" not in text


@pytest.mark.slow
def test_the_recordings_are_listed_and_tabled(run, tmp_path):
    listed = run("record_samples", "unused", "--list").stdout
    assert "hybrid" in listed
    assert run("record_samples", tmp_path, "--only", "nonsense").returncode != 0
    done = run(
        "record_samples", tmp_path, "--only", "bad_growing,dense_8b", "--tiny", "--budget", 60
    )
    assert done.returncode == 0, done.stderr
    assert "bad_growing/eager/1" in done.stdout
    assert "skipped, they need a CUDA graph" in done.stderr or torch.cuda.is_available()
    assert "skipped for lack of time: dense_8b" in done.stdout


def event(name, cat, at, **args):
    return {"ph": "X", "name": name, "cat": cat, "ts": at, "dur": 5, "args": args}


def test_trimming_keeps_the_last_steps_and_what_they_launched(run, tmp_path):
    cell = tmp_path / "cell"
    cell.mkdir()
    events = [{"ph": "M", "name": "process_name", "args": {"name": "python"}}]
    for n in range(5):
        at = 100 * n
        events += [
            event(f"gaptrace.step#{n}", "user_annotation", at),
            event("cudaLaunchKernel", "cuda_runtime", at + 10, correlation=n),
            event("gemm", "kernel", at + 95, correlation=n, queued=0, stream=7),
        ]
        events.append({"ph": "s", "name": "ac2g", "ts": at + 10, "id": n})
    with gzip.open(cell / "trace.json.gz", "wt") as file:
        json.dump({"schemaVersion": 1, "traceEvents": events}, file)
    (cell / "run.json").write_text("{}")
    done = run("trim_trace", cell, tmp_path / "out", "--steps", "2")
    assert done.returncode == 0, done.stderr
    with gzip.open(tmp_path / "out" / "trace.json.gz") as file:
        trace = json.load(file)
    kept = trace["traceEvents"]
    names = [e["name"] for e in kept if str(e["name"]).startswith("gaptrace.")]
    assert names == [f"gaptrace.step#{n}" for n in (2, 3, 4)]
    kernels = [e for e in kept if e.get("cat") == "kernel"]
    # Step 1's kernel still runs when step 2 begins, but step 1 launched it.
    assert [e["args"] for e in kernels] == [{"correlation": n, "stream": 7} for n in (2, 3, 4)]
    assert [e["ts"] for e in kernels] == [295, 395, 495]
    assert not any(e["ph"] == "s" for e in kept)
    assert trace["gaptrace_trimmed"]["steps"] == 2
    assert trace["schemaVersion"] == 1
    assert (tmp_path / "out" / "run.json").read_text() == "{}"
