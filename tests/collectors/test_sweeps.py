"""Batch sweeps, shipped caches, and what torch's own capturing and tuning leave as evidence."""

import json
import logging
import shutil

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from gaptrace_collectors import cudagraph_trees  # noqa: E402
from gaptrace_collectors.autotune import Autotuning  # noqa: E402
from gaptrace_collectors.device import Device  # noqa: E402
from tests.collectors.conftest import MODEL, QUICK  # noqa: E402

BUILD = (
    MODEL
    + """
def build(batch=1):
    torch.manual_seed(1)
    model = Model().eval()
    token = torch.zeros(batch, 1, dtype=torch.long)

    def step():
        logits = model(token)
        token.copy_(logits[:, -1:].argmax(-1))
        return logits

    step.model = model
    step.batch = batch
    step.reset = lambda: token.zero_()
    return step
"""
)
BY_ARGUMENT = BUILD.replace(
    "def build(batch=1):", "import sys\n\ndef build():\n    batch = int(sys.argv[1])"
)
NO_BATCH = BUILD.replace("def build(batch=1):", "def build():\n    batch = 2")
LOOP = (
    MODEL
    + """
import sys

batch = int(sys.argv[1])
model = Model().eval()
with torch.no_grad():
    token = model(torch.zeros(batch, 4, dtype=torch.long))[:, -1:].argmax(-1)
    for _ in range(60):
        token = model(token)[:, -1:].argmax(-1)
"""
)


@pytest.mark.parametrize(
    ("script", "words"),
    [(BUILD, ()), (BY_ARGUMENT, ("{batch}",)), (LOOP, ("{batch}",))],
    ids=["build(batch)", "argument", "script"],
)
def test_every_batch_size_is_a_run_folder(bench, script, words):
    done = bench.collect("--modes", "eager", "--batch", "4,1", *QUICK, bench.script(script), *words)
    assert done.code == 0, done.stderr
    for batch in (1, 4):
        run = done.run(f"batch-{batch}/eager")
        assert run["point"] == {"batch": batch, "length": None}
        assert run["step"]["batch"] == run["step"]["tokens"] == batch
        assert run["outputs"]["status"] == "reference"
    index = json.loads((done.root / "collect.json").read_text())
    assert index["batches"] == [1, 4]
    assert [cell["path"] for cell in index["cells"]] == ["batch-1/eager/1", "batch-4/eager/1"]


@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        (NO_BATCH, (), "takes no batch size"),
        (LOOP, ("2",), "takes no batch size"),
        (BUILD.replace("step.batch = batch", "step.batch = 7"), (), "the step says 7"),
    ],
    ids=["build()", "script", "another size"],
)
def test_a_workload_that_takes_no_batch_is_told_how(bench, script, words, said):
    done = bench.collect("--modes", "eager", "--batch", "3", *QUICK, bench.script(script), *words)
    assert done.code == 125
    assert said in done.stderr
    assert "hint:" in done.stderr
    assert not done.root.exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--batch", "1,x"),
        ("--batch", "0"),
        ("--buckets", "8,16"),
        ("--buckets", "32,40"),
        ("--autotune-max-batch", "0"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(bench, words):
    done = bench.collect(*words, *QUICK, bench.script(BUILD))
    assert done.code == 2
    assert "error: --" in done.stderr


@pytest.mark.parametrize("option", ["--cache-dir", "-o"])
def test_a_folder_that_cannot_be_made_is_nobody_elses_fault(bench, tmp_path, option):
    (tmp_path / "file").write_text("")
    words = ("--modes", "eager", *QUICK, option, tmp_path / "file" / "x")
    done = bench.collect(*words, bench.script(BUILD))
    assert done.code == 125
    assert "Traceback" not in done.stderr
    assert "gaptrace: error:" in done.stderr
    assert "gaptrace: hint:" in done.stderr


def test_what_comes_next_is_what_works_here(bench):
    words = ("--modes", "eager,eager", "--batch", "1,2", *QUICK)
    done = bench.collect(*words, bench.script(BUILD))
    assert done.code == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "next:" in line] == [
        f"gaptrace: next: gaptrace analyze {done.root}"
    ]  # one mode, and on a CPU there is nothing to compare
    index = json.loads((done.root / "collect.json").read_text())
    assert index["modes"] == ["eager"]
    assert index["complete"] is True
    assert [cell["path"] for cell in index["cells"]] == ["batch-1/eager/1", "batch-2/eager/1"]


def test_a_shipped_cache_starts_warm_and_builds_nothing(bench, tmp_path):
    words = ("--modes", "compiled", "--repeats", "2", *QUICK[2:])
    script = bench.script(BUILD)
    made = bench.collect(*words, "--cache-dir", "run", script, name="made")
    assert made.code == 0, made.stderr
    cold, again = (made.run("compiled", repeat) for repeat in (1, 2))
    assert cold["startup"]["cache"] == cold["compile"]["cache"]["start"] == "cold"
    assert cold["compile"]["cache"]["fx_graph"]["misses"] == 1
    assert cold["compile"]["cache"]["new_files"]["so"] >= 1
    assert again["startup"]["cache"] == "warm"
    own = made.root / "inductor_cache"
    assert cold["compile"]["cache"]["dir"] == str(own)
    # The recordings are replaced, the cache in their folder is not.
    once = ("--modes", "compiled", *QUICK, "--force", "--redact")
    forced = bench.collect(*once, "--cache-dir", "run", script, name="made")
    assert forced.code == 0, forced.stderr
    assert forced.run("compiled")["startup"]["cache"] == "warm"
    assert forced.run("compiled")["compile"]["cache"]["dir"] == "inductor_cache"
    assert not (forced.root / "compiled" / "2").exists()
    shipped = tmp_path / "elsewhere"
    shutil.move(own, shipped)
    there = bench.collect(*words, "--cache-dir", shipped, script, name="there")
    assert there.code == 0, there.stderr
    cache = there.run("compiled")["compile"]["cache"]
    assert cache["dir"] == str(shipped)
    assert cache["start"] == "warm"
    assert cache["fx_graph"]["hits"] + cache["aot_autograd"]["hits"] >= 1
    assert cache["fx_graph"]["misses"] == cache["new_files"]["so"] == 0
    assert there.run("compiled")["startup"]["ready_ns"] < cold["startup"]["ready_ns"]


def test_reduce_overhead_says_why_it_captured_nothing(bench):
    words = ("--modes", "eager,reduce-overhead", *QUICK)
    done = bench.collect(*words, bench.script(BUILD))
    assert done.code == 0, done.stderr
    trees = done.run("reduce-overhead")["cudagraph_trees"]
    assert trees["recordings"] == trees["recordings_while_measured"] == 0
    assert trees["skips"] == 1
    assert trees["skip_reasons"] == [
        {"reason": "the step runs on the CPU", "where": "", "count": 1}
    ]
    assert done.run("eager")["cudagraph_trees"] is None


OVERWRITTEN = (
    "Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run."
    ' Stack trace: File "{file}", line 2, in update\n    keys = 2. To prevent overwriting, clone'
)


def test_a_step_that_reads_an_overwritten_output_is_a_mode_that_cannot_work(bench, tmp_path):
    # Torch raises this on a GPU only; what is to become of it is the same here.
    code = tmp_path / "cache.py"
    code.write_text("class Cache:\n    keys = 2\n")
    raising = f"raise RuntimeError({OVERWRITTEN.format(file=code)!r})"
    script = bench.script(
        LOOP.replace("int(sys.argv[1])", "1").replace(
            "        token = model(token)",
            "        if _ == 12 and torch._dynamo.utils.counters['stats']:\n"
            f"            {raising}\n"
            "        token = model(token)",
        )
    )
    words = ("--modes", "eager,reduce-overhead,compiled", *QUICK)
    done = bench.collect(*words, script)
    run = done.run("reduce-overhead")
    assert (run["status"], run["failure"]["kind"]) == ("mode_failed", "overwritten_output")
    assert f"it was made at {code}:2 in update: keys = 2" in run["failure"]["reason"]
    assert run["failure"]["evidence"][0]["where"] == f"{code}:2 in update: keys = 2"
    assert run["script"]["exit_code"] is None
    assert "accessing tensor output" in run["script"]["error"]
    # No tree, no such blame: in another mode it is what the script raises in that mode.
    assert done.run("compiled")["status"] == "mode_failed"
    assert done.run("compiled")["failure"]["kind"] == "mode_error"
    assert done.code == 0


def test_what_torch_logs_about_giving_up_is_kept(tmp_path):
    device = Device()
    device.begin(torch.device("cpu"))
    watch = cudagraph_trees.TreeWatch(device)
    from torch._inductor import cudagraph_utils

    code = tmp_path / "model.py"
    code.write_text("x = 1\ny = 2\n")
    logger = logging.getLogger(cudagraph_utils.__name__ + ".__perf_hints")
    loggers = [getattr(cudagraph_utils, name, None) for name in ("cudagraphs_log", "perf_hint_log")]
    logger = next(item for item in loggers if item is not None)
    text = f'skipping cudagraphs due to mutated inputs. Found from\n   File "{code}", line 2, in f'
    for _ in range(2):
        logger.warning(text)
    logger.warning("unexpected output of the last run")
    section = watch.section()
    assert section["skip_reasons"] == [
        {
            "reason": "skipping cudagraphs due to mutated inputs. Found from",
            "where": f"{code}:2",
            "count": 2,
        }
    ]
    assert section["warnings"] == ["unexpected output of the last run"]


class ExternKernelCaller:
    """Stands for a library's candidate; Inductor's classes are told by name."""

    name = "mm"


class TritonTemplateCaller:
    def __init__(self, name):
        self.name = name


class Matrix:
    def __init__(self, *size):
        self._size = size

    def get_size(self):
        return self._size

    def get_dtype(self):
        return torch.bfloat16


def test_the_fastest_candidate_is_the_choice_and_equal_questions_are_counted():
    tuning = Autotuning(8, 8, accelerated=True)
    inputs = [Matrix(8, 64), Matrix(64, 32)]
    for number in (3, 9):
        timings = {
            ExternKernelCaller(): 0.02,
            TritonTemplateCaller(f"triton_mm_{number}"): 0.015,
            TritonTemplateCaller("broken"): float("inf"),
        }
        tuning._chosen(timings, "mm", inputs, list(timings))
    tuning._chosen({ExternKernelCaller(): 0.02}, "addmm", inputs)
    section = tuning.section(1.5, cached=False)
    assert section["choices"][0] == {
        "op": "mm",
        "shapes": [[8, 64], [64, 32]],
        "dtype": "bfloat16",
        "chosen": "triton_mm_3",
        "kind": "Triton template",
        "ns": 15_000,
        "best_extern_ns": 20_000,
        "candidates": 3,
        "count": 2,
    }
    assert section["choices"][1]["kind"] == "cuBLAS"
    assert (section["max_batch"], section["skipped"], section["note"]) == (8, None, None)


def test_a_batch_above_the_cap_is_not_tuned():
    tuning = Autotuning(8, 9, accelerated=True)
    assert (
        tuning.section(None, cached=False)["skipped"] == "batch 9 is above --autotune-max-batch 8"
    )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "the choices for matrix products came with the graphs from the cache"),
        (2.0, "from the cache; the time went into other kernels, at their first call"),
    ],
)
def test_choices_that_came_from_the_cache_are_not_denied(seconds, said):
    tuning = Autotuning(None, 1, accelerated=True)
    assert tuning.section(seconds, cached=True)["note"].endswith(said)
    assert "no matrix product had a choice" in tuning.section(2.0, cached=False)["note"]


def test_products_are_really_tuned(bench):
    # Inductor's C++ templates want constant weights.
    frozen = "import torch._inductor.config as config\nconfig.freezing = True\n"
    wide = frozen + BUILD.replace("nn.Linear(8, 16)", "nn.Linear(64, 128)").replace(
        "(16, 8)", "(128, 64)"
    )
    words = ("--modes", "eager,max-autotune", "--batch", "1,8", "--autotune-max-batch", "4")
    done = bench.collect(*words, *QUICK, "--cache-dir", "run", bench.script(frozen + wide))
    assert done.code == 0, done.stderr
    small = done.run("batch-1/max-autotune")["autotune"]
    assert small["skipped"] is None
    for choice in small["choices"]:
        assert choice["kind"] in ("C++ template", "ATen")
        assert choice["ns"] > 0
    # Candidates are counted by torch as if they were kernels of the graph.
    assert done.run("batch-1/max-autotune")["compile"]["inductor"]["generated_kernels"] is None
    large = done.run("batch-8/max-autotune")
    assert large["compile"]["inductor"]["generated_kernels"] > 0
    large = large["autotune"]
    assert large["skipped"] == "batch 8 is above --autotune-max-batch 4"
    assert large["choices"] == []


def test_templates_are_counted_by_what_is_fused_into_them(monkeypatch):
    """Through the method that Inductor generates templates with, on stand-ins for its nodes."""
    simd = pytest.importorskip("torch._inductor.codegen.simd")
    generated = []
    monkeypatch.setattr(
        simd.SIMDScheduling,
        "codegen_template",
        lambda self, template, epilogue, prologue_nodes, **_: generated.append(template),
    )
    tuning = Autotuning(None, 1, accelerated=True)

    class Node:
        def __init__(self, *names, size=(8, 32)):
            origins = [type("Origin", (), {"name": name})() for name in names]
            self.node = type("Buffer", (Matrix,), {"origins": origins})(*size)

    watched = simd.SIMDScheduling.codegen_template
    for number in (3, 11):
        watched(None, Node("mm"), [Node(f"silu_{number}", "mul")], [])
    watched(None, Node("mm", size=(8, 64)), [], prologue_nodes=[Node("to_1")])
    watched(None, Node("mm"), [], [], only_gen_src_code=True)
    assert len(generated) == 4
    assert tuning.section(1.0, cached=False)["templates"] == [
        {"output": [8, 32], "prologue": [], "epilogue": ["mul", "silu"], "count": 2},
        {"output": [8, 64], "prologue": ["to"], "epilogue": [], "count": 1},
    ]
