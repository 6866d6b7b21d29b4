"""The paths that need a GPU: `pytest -m gpu` runs them all, on small models."""

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.torch,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or ROCm device"),
]

from tests.collectors.conftest import LOOP, WORKLOADS, Collected, environment  # noqa: E402

FOUR = "eager,compiled,graph,compiled-graph"
SHORT = ("--repeats", "1", "--timed-steps", "40", "--steps", "5", "--warmup", "8")
SMALL = ("--layers", "4", "--hidden", "1024", "--heads", "16", "--kv-heads", "4")


@pytest.fixture(scope="module", autouse=True)
def a_gpu_for_each_worker():
    """Recordings that share a GPU would time each other."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    with pytest.MonkeyPatch.context() as patch:
        if torch.cuda.device_count() > 1 and "CUDA_VISIBLE_DEVICES" not in os.environ:
            number = int(worker) % torch.cuda.device_count()
            patch.setenv("CUDA_VISIBLE_DEVICES", str(number))
        yield


def show(name: str, done: Collected) -> None:
    """One line a cell: what was measured, for the log of the GPU machine."""
    for path in sorted(done.root.rglob("run.json")):
        run = json.loads(path.read_text())
        unprofiled, failure = run["unprofiled"] or {}, run["failure"] or {}
        steady = run["steadiness"] or {}
        print(
            f"GPU {name:<18} {run['mode']:<15} {run['status']:<12}"
            f" step {(unprofiled.get('median_ns') or 0) / 1e6:8.3f} ms"
            f" issue {(run['issue_ns'] or 0) / 1e6:8.3f} ms"
            f" ops {(steady.get('launch_sequence') or {}).get('counts', [None])[:1]}"
            f" outputs {(run['outputs'] or {}).get('status')}"
            f" drift {unprofiled.get('drift')} hook {(run['hooks'] or {}).get('share')}"
            f" {failure.get('kind', '')} {failure.get('reason', '')[:160]}"
        )


def workload(bench, name, *words, modes=FOUR, options=SHORT):
    done = bench.collect("--modes", modes, *options, WORKLOADS / f"{name}.py", *words, name=name)
    show(" ".join((name, *map(str, words[-2:]))), done)
    print(done.stderr[-2000:] if done.code else "", end="")
    assert done.code == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def dense(shared_bench):
    return workload(shared_bench, "dense_decoder", "--size", "1b")


def test_the_four_modes_record_the_same_work(dense):
    for mode in FOUR.split(","):
        run = dense.run(mode)
        assert run["status"] == "ok", (mode, run["failure"])
        assert run["unprofiled"]["clock"] == "device_events"
        assert len(run["unprofiled"]["before"]["device_ns"]) == 20
        assert run["steadiness"]["launch_sequence"]["equal"] is True
        assert run["steadiness"]["launch_sequence"]["of"] == "device ops"
        assert len(dense.marks(mode)) == 6
    assert dense.run("graph")["outputs"]["status"] == "equal"
    assert dense.run("graph")["outputs"]["steps_compared"] == 8
    assert dense.run("compiled-graph")["outputs"]["status"] in ("equal", "close")
    assert dense.run("compiled")["outputs"]["status"] in ("equal", "close")


def test_a_captured_step_is_one_launch(dense):
    run = dense.run("graph")
    observed = run["steadiness"]["observed"]
    assert observed["graph launches"] == run["profiled"]["complete"] + 2  # the lead and open steps
    eager = dense.run("eager")["steadiness"]["launch_sequence"]["counts"][0]
    assert abs(run["steadiness"]["launch_sequence"]["counts"][0] - eager) <= 2
    assert run["capture"]["graphs"] == 1
    assert run["capture"]["whole_step"] is True
    assert run["issue_ns"] < dense.run("eager")["issue_ns"] / 5


def test_compiled_modes_have_fewer_kernels_and_say_what_they_compiled(dense):
    counts = {
        mode: dense.run(mode)["steadiness"]["launch_sequence"]["counts"][0]
        for mode in FOUR.split(",")
    }
    assert counts["compiled"] < counts["eager"]
    assert counts["compiled-graph"] < counts["graph"]
    compiled = dense.run("compiled")["compile"]
    assert compiled["steady"] is True
    assert compiled["inductor"]["generated_kernels"] > 0


def test_the_gpu_is_measured(dense):
    run = dense.run("eager")
    device, power = run["device"], run["power"]
    assert device["type"] in ("cuda", "hip")
    assert device["copy_bandwidth_bytes_per_s"] > 1e11
    assert 500 < device["empty_launch_ns"] < 100_000
    assert 100 < device["empty_launch"]["graph_node_ns"] < device["empty_launch_ns"]
    assert run["memory"]["peak_allocated"] >= run["memory"]["peak_allocated_timed"] > 0
    if "note" in power:
        pytest.skip(power["note"])
    assert {sample["phase"] for sample in power["samples"]} == {"before", "after"}
    assert power["limits"]["power_mw"] > power["samples"][0]["power_mw"] > 0
    assert power["samples"][0]["temperature_c"] > 0
    assert device["driver"]


def test_the_recorder_costs_less_than_a_hundredth_of_the_step(dense):
    for mode in FOUR.split(","):
        hooks = dense.run(mode)["hooks"]
        assert hooks["share"] < 0.01, (mode, hooks)


def test_a_dynamic_cache_is_reported_with_what_moved(bench):
    done = workload(bench, "hf_generate", "--tiny", modes="eager,graph")
    failure = done.run("graph")["failure"]
    assert failure["kind"] == "moved_input"
    assert failure["evidence"][0]["what"].startswith("past_key_values")
    assert "shape [" in failure["evidence"][0]["detail"]


def test_a_static_cache_is_captured_with_equal_outputs(bench):
    words = ("--layers", "4", "--tokens", "200", "--cache", "static")
    done = workload(bench, "hf_generate", *words)
    for mode in FOUR.split(","):
        assert done.run(mode)["status"] == "ok", done.run(mode)["failure"]
    run = done.run("graph")
    assert run["outputs"]["status"] == "equal"
    assert run["outputs"]["steps_compared"] >= 3
    assert {item["name"] for item in run["capture"]["static_inputs"]} >= {"input_ids"}
    assert any("automatic compilation" in note for note in run["notes"])
    eager, _, graph, _ = done.stdout.splitlines()
    assert eager == graph  # the same tokens; compiling may break a tie the other way


def test_hf_automatic_compilation_is_recorded_as_it_is(bench):
    words = ("--layers", "2", "--tokens", "150", "--cache", "static")
    done = workload(bench, "hf_generate", *words, modes="as-is")
    run = done.run("as-is")
    assert run["status"] == "ok"
    assert run["steadiness"]["observed"]


def test_a_synchronizing_step_is_reported_with_its_line(bench):
    done = workload(bench, "item_per_step", *SMALL, modes="eager,graph")
    eager = done.run("eager")
    assert eager["issue_ns"] is None
    assert "waits for the GPU" in eager["issue"]["reason"]
    waits = eager["steadiness"]["synchronizations"]
    assert any("item_per_step.py" in row["where"] and ".item()" in row["where"] for row in waits)
    failure = done.run("graph")["failure"]
    assert failure["kind"] == "sync"
    assert "item_per_step.py" in failure["reason"]


def test_a_growing_cache_is_refused_by_capture(bench):
    done = workload(bench, "growing_cache", *SMALL, modes="eager,graph")
    failure = done.run("graph")["failure"]
    assert failure["kind"] == "moved_input"
    assert failure["evidence"][0]["what"] == "step.model.k[0]"


def test_endless_recompiling_leaves_nothing_to_capture(bench):
    options = (*SHORT[:2], "--timed-steps", "10", "--steps", "5", "--max-seconds", "20")
    done = workload(
        bench, "recompile_per_token", "--tiny", modes="compiled,compiled-graph", options=options
    )
    assert done.run("compiled")["compile"]["steady"] is False
    failure = done.run("compiled-graph")["failure"]
    assert failure["kind"] == "recompiles"
    assert "tag" in failure["evidence"][-1]["detail"]


REBINDING = """
import sys

sys.path.insert(0, "WORKLOADS")
import torch
from decoder import SIZES, Decoder, make


def build():
    model = make(Decoder, SIZES["tiny"])
    token = torch.zeros(1, 1, dtype=torch.long, device="cuda")
    pos = torch.zeros(1, dtype=torch.long, device="cuda")

    @torch.no_grad()
    def step():
        nonlocal token
        logits = model(token, pos)
        token = logits.argmax(-1)  # a new tensor: the graph will go on reading the old one
        pos.add_(1)
        return logits

    step.model = model
    return step
"""


def test_a_rebound_tensor_is_found_by_its_wrong_outputs(bench):
    script = bench.script(REBINDING.replace("WORKLOADS", str(WORKLOADS)))
    done = bench.collect("--modes", "eager,graph", *SHORT, script)
    show("rebound tensor", done)
    assert done.code == 0, done.stderr
    failure = done.run("graph")["failure"]
    assert failure["kind"] == "moved_input"
    assert failure["evidence"][0]["what"] == "step.token"


def test_a_script_that_captures_by_itself_is_recorded_as_it_is(bench):
    text = LOOP.replace("Model().eval()", "Model().eval().cuda()").replace(
        "    token = model(torch.arange(4)[None])[:, -1:].argmax(-1)\n"
        "    for _ in range(steps):\n"
        "        token = model(token)[:, -1:].argmax(-1)\n",
        "    token = torch.zeros(1, 1, dtype=torch.long, device='cuda')\n"
        "    graph = torch.cuda.CUDAGraph()\n"
        "    torch.nn.functional.linear(torch.ones(1, 8, device='cuda'), model.head.weight)\n"
        "    torch.cuda.synchronize()\n"
        "    with torch.cuda.graph(graph):\n"
        "        token.copy_(model(token)[:, -1:].argmax(-1))\n"
        "    for _ in range(steps):\n"
        "        graph.replay()\n",
    )
    done = bench.collect("--modes", "eager", *SHORT, bench.script(text), "200")
    assert done.code == 125, done.stderr
    assert done.run("eager")["failure"]["kind"] == "captured_by_script"
    done = bench.collect("--force", *SHORT, bench.script(text), "200")
    show("own capture", done)
    assert done.code == 0, done.stderr
    run = done.run("as-is")
    assert run["step"]["call"] == "CUDAGraph.replay"
    assert run["steadiness"]["observed"]["graph launches"] >= 6


def test_a_capture_of_the_script_is_left_alone_while_it_is_recorded(bench):
    """It captures its own graph, by calls of the module, while the recorder already records it."""
    text = LOOP.replace("Model().eval()", "Model().eval().cuda()").replace(
        "    token = model(torch.arange(4)[None])[:, -1:].argmax(-1)\n"
        "    for _ in range(steps):\n"
        "        token = model(token)[:, -1:].argmax(-1)\n",
        "    token = torch.zeros(1, 1, dtype=torch.long, device='cuda')\n"
        "    static, graph = token.clone(), None\n"
        "    for number in range(steps):\n"
        "        token = model(token)[:, -1:].argmax(-1)\n"
        "        if number in (3, 30, 60, 80):\n"
        "            torch.cuda.synchronize()\n"
        "            graph = torch.cuda.CUDAGraph()\n"
        "            with torch.cuda.graph(graph):\n"
        "                out = model(static)\n"
        "            graph.replay()\n",
    )
    done = bench.collect("--modes", "as-is", *SHORT, bench.script(text), "200")
    show("capture within", done)
    assert done.code == 0, done.stderr
    assert any("while a CUDA graph was captured" in note for note in done.run("as-is")["notes"])


def test_pieces_are_captured_around_attention(bench):
    words = (*SMALL, "--max-len", "256")
    done = workload(bench, "dense_decoder", *words, modes="eager,compiled-graph,piecewise")
    run = done.run("piecewise")
    assert run["status"] == "ok", run["failure"]
    made = run["piecewise"]
    assert (made["pieces"], made["captured"], len(made["seams"])) == (5, 5, 4)
    assert {seam["op"] for seam in made["seams"]} == {"scaled_dot_product_attention"}
    # What attention leaves lies elsewhere at every call, so it is copied in: one tensor a seam.
    assert len(made["copied_inputs"]) == 4
    assert run["outputs"]["status"] in ("equal", "close")
    assert run["steadiness"]["observed"]["graph launches"] >= 5 * 6


def test_the_hybrid_in_pieces_computes_what_eager_does(bench):
    words = ("--layers", "8", "--float32")
    done = workload(bench, "hybrid", *words, modes="eager,piecewise", options=SHORT)
    run = done.run("piecewise")
    assert run["status"] == "ok", run["failure"]
    assert run["piecewise"]["pieces"] == run["piecewise"]["captured"] == 3
    assert run["outputs"]["status"] in ("equal", "close")
    assert run["outputs"]["argmax_equal"] is True


def test_each_bucket_has_its_graph_and_its_price(bench):
    modes = "eager,graph,compiled-graph,reduce-overhead"
    words = (*SMALL, "--max-len", "256")
    options = (*SHORT, "--buckets", "64,128")
    done = workload(bench, "dense_decoder", *words, modes=modes, options=options)
    for mode in modes.split(","):
        for size in (64, 128):
            path = done.root / f"length-{size}" / mode / "1" / "run.json"
            run = json.loads(path.read_text())
            assert run["status"] == "ok", (mode, run["failure"])
            assert run["outputs"]["status"] in ("reference", "equal", "close"), (mode, size)
            assert [item["size"] for item in run["buckets"]["prepared"]] == [128, 64]
            assert run["buckets"]["this"] == size
    assert run["cudagraph_trees"]["recordings"] == 2
    assert run["cudagraph_trees"]["skips"] == 0
    assert run["steadiness"]["observed"]["graph launches"] >= 6


MUTATING = """
import torch


def build():
    weights = torch.randn(256, 256, device="cuda")
    seen = torch.zeros(1, 256, device="cuda")

    @torch.no_grad()
    def step():
        seen.mul_(0.5).add_(torch.tanh(seen @ weights) + 1)  # neither parameter nor buffer
        return seen * 2

    step.tokens = 1
    step.reset = lambda: seen.zero_()
    return step
"""


def test_torch_says_why_it_gave_up_on_capturing(bench):
    done = bench.collect("--modes", "eager,reduce-overhead", *SHORT, bench.script(MUTATING))
    show("mutated input", done)
    assert done.code == 0, done.stderr
    trees = done.run("reduce-overhead")["cudagraph_trees"]
    print("GPU trees", trees)
    assert trees["skips"] >= 1
    assert any("mutated inputs" in item["reason"] for item in trees["skip_reasons"])


def test_a_cache_that_trees_overwrite_is_a_mode_that_cannot_work(bench):
    done = workload(bench, "hf_generate", "--tiny", modes="eager,reduce-overhead")
    run = done.run("reduce-overhead")
    assert run["status"] == "mode_failed"
    assert run["failure"]["kind"] == "overwritten_output"
    assert "cache_utils.py" in run["failure"]["evidence"][0]["where"]


def test_only_small_batches_are_tuned(bench):
    words = ("--layers", "1", "--hidden", "512", "--heads", "8", "--kv-heads", "4")
    options = (*SHORT, "--batch", "2,4", "--autotune-max-batch", "2")
    done = workload(
        bench,
        "dense_decoder",
        *words,
        "--vocab",
        "1024",
        "--intermediate",
        "1024",
        "--batch",
        "{batch}",
        modes="eager,max-autotune",
        options=options,
    )
    small, large = (
        json.loads((done.root / f"batch-{n}" / "max-autotune" / "1" / "run.json").read_text())
        for n in (2, 4)
    )
    assert small["autotune"]["skipped"] is None
    assert small["autotune"]["seconds"] > 0
    assert {choice["op"] for choice in small["autotune"]["choices"]} <= {"mm", "addmm", "bmm"}
    assert large["autotune"]["choices"] == []
    assert "above --autotune-max-batch 2" in large["autotune"]["skipped"]


def test_int4_weights_over_a_stacked_cache(bench):
    done = workload(bench, "stacked_cache", "--layers", "2", "--int4")
    for mode in FOUR.split(","):
        assert done.run(mode)["status"] == "ok", done.run(mode)["failure"]
    run = done.run("graph")
    assert run["outputs"]["status"] == "equal"
    packed = run["bytes"]["buffers"]["int4 (packed)"]
    # Two layers of q, kv, o and three feed-forward projections, half a byte a weight.
    assert packed == 2 * (4 * 5120 * 5120 + 3 * 5120 * 17408) // 2


def test_the_hybrid_is_recorded_in_all_modes(bench):
    done = workload(bench, "hybrid", "--layers", "4")
    for mode in FOUR.split(","):
        assert done.run(mode)["status"] == "ok", done.run(mode)["failure"]
    assert done.run("graph")["outputs"]["status"] == "equal"


def test_rates_agree_with_a_script_that_knows_nothing_of_gaptrace(bench):
    done = workload(bench, "dense_decoder", "--size", "1b", "--layers", "8", modes="eager,graph")
    assert done.run("graph")["status"] == "ok"
    plain = subprocess.run(
        [
            *(sys.executable, str(WORKLOADS / "independent_timing.py")),
            *("--size", "1b", "--layers", "8", "--modes", "graph", "--rounds", "5"),
        ],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert plain.returncode == 0, plain.stderr
    other = json.loads(plain.stdout.splitlines()[-1])["modes"]["graph"]
    mine = done.run("graph")["unprofiled"]["median_ns"] / 1e6
    spread = max(other["rounds_ms"]) - min(other["rounds_ms"])
    print(f"GPU agreement: {mine:.4f} ms here, {other} there")
    assert abs(mine - other["median_ms"]) < max(0.05 * other["median_ms"], spread)


def test_this_machine_is_described():
    print("GPU", torch.cuda.get_device_name(), torch.__version__, os.cpu_count())
