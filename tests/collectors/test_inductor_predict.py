"""The whole prediction: what the installed Inductor makes of recorded and hand-written steps."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from gaptrace_inductor import prediction, releases, standins

from .et_builder import Recording, T
from .inductor_runs import predict

pytestmark = [pytest.mark.torch, pytest.mark.slow]

DATA = Path(__file__).parents[1] / "data"
# Generated kernels and all kernels: true under 2.11 (compiled on an H200), and what 2.13.0
# schedules. There llama4's batched matmul with K = 1 (rotary embedding) is a multiply: one
# library call and the kernel that fed it become a part of other kernels.
COUNTS = {
    "2.11": {"llama4": (42, 81), "gpt2_4": (28, 54)},
    "2.13": {"llama4": (41, 79), "gpt2_4": (28, 54)},
}
VERSION = ".".join(torch.__version__.split(".")[:2])
LINEAR = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"
SILU = "aten::silu(Tensor self) -> Tensor"
MUL = "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"
ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
SELECT = "aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"
INDEX_COPY = (
    "aten::index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor source) -> Tensor(a!)"
)
CAT = "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"
EMBEDDING = (
    "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, "
    "bool scale_grad_by_freq=False, bool sparse=False) -> Tensor"
)


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, Any]]:
    """The predictions for the two recorded models."""
    return {
        model: predict(DATA / f"{model}_eager.et.json.gz", trace=DATA / f"{model}_eager.json.gz")
        for model in ("llama4", "gpt2_4")
    }


@pytest.mark.parametrize("model", ["llama4", "gpt2_4"])
def test_kernels_after_compiling_are_exact(model: str, recorded: dict[str, Any]) -> None:
    if VERSION not in COUNTS:
        pytest.skip(f"torch {torch.__version__} is not a tested version")
    counts = recorded[model]["counts"]
    assert (counts["generated"], counts["total"]) == COUNTS[VERSION][model]
    assert counts["copies"] == 1


@pytest.mark.parametrize("model", ["llama4", "gpt2_4"])
def test_every_eager_kernel_is_kept_replaced_or_dead(model: str, recorded: dict[str, Any]) -> None:
    parts, counts = recorded[model]["kernels"], recorded[model]["counts"]
    replaced = sum(entry["replaces"]["kernels"] for entry in parts["generated"])
    kept = counts["extern_kernels"] + counts["left_kernels"]
    # `arange` results that nothing reads are all that compiling drops.
    assert 0 <= counts["eager_kernels"] - kept - replaced <= 3


@pytest.mark.parametrize("model", ["llama4", "gpt2_4"])
def test_names_match_those_of_the_compiled_program(model: str, recorded: dict[str, Any]) -> None:
    if VERSION not in COUNTS:
        pytest.skip(f"torch {torch.__version__} is not a tested version")
    names = {entry["name"] for entry in recorded[model]["kernels"]["generated"]}
    seen = {
        "llama4": "triton_poi_fused__unsafe_view_mul_silu",
        "gpt2_4": "triton_red_fused_add_arange_copy__embedding_native_layer_norm_unsqueeze_view",
    }
    assert seen[model] in names


def test_the_saved_prediction_is_what_comes_out(recorded: dict[str, Any]) -> None:
    if VERSION != "2.13":
        pytest.skip("the saved predictions are those of 2.13")
    for model, fresh in recorded.items():
        saved = json.loads(gzip.decompress((DATA / f"{model}.inductor.json.gz").read_bytes()))
        assert saved["counts"] == fresh["counts"]
        assert saved["bytes"] == fresh["bytes"]
        assert [k["name"] for k in saved["kernels"]["generated"]] == [
            k["name"] for k in fresh["kernels"]["generated"]
        ]


def test_a_plain_static_cache_raises_no_doubt(recorded: dict[str, Any]) -> None:
    assert [result["doubts"] for result in recorded.values()] == [[], []]


def test_bytes_are_those_touched(recorded: dict[str, Any]) -> None:
    """The first kernel of gpt2_4 looks up two rows of 1600 bf16 values and normalises their sum."""
    first = recorded["gpt2_4"]["kernels"]["generated"][0]
    gathered = [a["bytes"] for a in first["reads"] if a["how"] == "gather"]
    assert gathered == [3200, 3200]
    assert first["bytes_written"] == 3200
    assert (first["kind"], first["reduced"]) == ("reduction", 1600)
    scatter = next(k for k in recorded["gpt2_4"]["kernels"]["generated"] if k["kind"] == "scatter")
    assert [(a["bytes"], a["role"]) for a in scatter["writes"]] == [(3200, "mutated")]


def test_where_the_result_is_from_stands_on_it(recorded: dict[str, Any]) -> None:
    result = recorded["llama4"]
    assert result["schema"] == "gaptrace.inductor/1"
    assert result["torch"]["used"] == torch.__version__
    assert result["device"]["name"] == "NVIDIA H200"
    assert result["source"]["linked_by"] == "Record function id"
    assert result["already"] is None
    left = [(entry["op"], entry["why"]) for entry in result["kernels"]["eager"]]
    assert left == [("aten::argmax", "outside"), ("aten::copy_", "outside")]
    json.dumps(result)


def mlp(layers: int, hidden: int, inner: int) -> Recording:
    """Gate, SiLU, up, multiply, down and residual, as Llama has them."""
    recording = Recording()
    step = recording.span("decode_step#0")
    ids = step.tensor(1, 1, dtype="long int")
    x = step.tensor(1, 1, hidden)
    step.op(EMBEDDING, [step.tensor(32000, hidden), ids, -1, False, False], x)
    for _ in range(layers):
        gate, up, hot, both = (step.tensor(1, 1, inner) for _ in range(4))
        down, out = step.tensor(1, 1, hidden), step.tensor(1, 1, hidden)
        step.op(LINEAR, [x, step.tensor(inner, hidden), None], gate)
        step.op(SILU, [gate], hot)
        step.op(LINEAR, [x, step.tensor(inner, hidden), None], up)
        step.op(MUL, [hot, up], both)
        step.op(LINEAR, [both, step.tensor(hidden, inner), None], down)
        x = step.op(ADD, [x, down, 1], out)
    step.op(LINEAR, [x, step.tensor(32000, hidden), None], step.tensor(1, 1, 32000))
    return recording


def test_the_public_arithmetic_of_llama_3_8b(tmp_path: Path) -> None:
    """28 KB a token and layer written and read again: 56 KB, 1.8 MB a token, 470 MB at 256."""
    result = predict(mlp(32, 4096, 14336).write(tmp_path / "a.json"))
    values = [
        (index, written, read)
        for entry in result["kernels"]["generated"]
        for index, _, written, read in entry["saves"]["values"]
        if result["ops"][index]["op"] == "aten::silu"
    ]
    assert [(written, read) for _, written, read in values] == [(28_672, 28_672)] * 32
    total = sum(written + read for _, written, read in values)
    assert total == 1_835_008
    assert total * 256 == 469_762_048
    grows = sum(e["saves"]["grows_written"] for e in result["kernels"]["generated"])
    assert grows >= 28_672 * 32


def cached(recording: Recording, stacked: int | None) -> Recording:
    """Layers that write a key into a cache row by row and read the cache back."""
    step = recording.span("decode_step#0")
    layers, size, width = 4, 64, 128
    ids, at = step.tensor(1, 1, dtype="long int"), step.tensor(1, dtype="long int")
    x = step.tensor(1, 1, width)
    step.op(EMBEDDING, [step.tensor(512, width), ids, -1, False, False], x)
    stack = step.tensor(layers, 1, size, width)
    for i in range(layers):
        key = step.tensor(1, 1, width)
        step.op(LINEAR, [x, step.tensor(width, width), None], key)
        cache: T = step.tensor(1, size, width)
        if stacked is not None:
            cache = step.view(stack, 1, size, width, offset=i * size * width)
            step.op(SELECT, [stack, 0, i], cache)
        step.op(INDEX_COPY, [cache, 1, at, key], cache)
        summed = step.tensor(1, 1, width)
        schema = "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False) -> Tensor"
        step.op(schema, [cache, [1], True], summed)
        x = step.op(ADD, [x, summed, 1], step.tensor(1, 1, width))
    step.op(LINEAR, [x, step.tensor(512, width), None], step.tensor(1, 1, 512))
    return recording


def test_a_stacked_cache_is_named_and_unstacking_it_helps(tmp_path: Path) -> None:
    path = cached(Recording(), stacked=0).write(tmp_path / "a.json")
    result = predict(path, what_if=["unstack-cache"])
    doubt = next(d for d in result["doubts"] if d["id"] == "stacked_cache")
    assert (doubt["writes"], doubt["buffers"]) == (4, 1)
    assert (doubt["base_bytes"], doubt["view_bytes"]) == (65536, 16384)
    assert doubt["whole_copies"] >= 1
    plain = predict(cached(Recording(), stacked=None).write(tmp_path / "b.json"))
    what_if = result["what_ifs"][0]
    assert what_if["places"] == 4
    assert what_if["counts"]["generated"] == plain["counts"]["generated"]
    assert what_if["bytes"]["generated"] == plain["bytes"]["generated"]
    assert what_if["counts"]["generated"] < result["counts"]["generated"]
    assert what_if["bytes"]["generated"] < result["bytes"]["generated"]
    assert "stacked_cache" not in [d["id"] for d in plain["doubts"]]


def test_auto_asks_the_what_ifs_that_the_step_calls_for(tmp_path: Path) -> None:
    stack = cached(Recording(), stacked=0).write(tmp_path / "a.json")
    found = predict(stack, what_if=["auto", "unstack-cache"])["what_ifs"]
    assert [item["name"] for item in found] == ["unstack-cache"]
    plain = mlp(1, 64, 128).write(tmp_path / "b.json")
    assert predict(plain, what_if=["auto"])["what_ifs"] == []


def test_batch_multiplies_activations_but_not_weights(tmp_path: Path) -> None:
    path = cached(Recording(), stacked=0).write(tmp_path / "a.json")
    result = predict(path, what_if=["batch=4", "batch=1"])
    grown, same = result["what_ifs"]
    weights = 4 * 128 * 128 * 2 + 512 * 128 * 2
    activations = result["bytes"]["extern_read"] - weights
    assert grown["bytes"]["extern_read"] == weights + 4 * activations
    assert grown["bytes"]["generated"] > 3 * result["bytes"]["generated"]
    assert same["error"] == "the step was recorded at batch 1"


def grown_cache() -> Recording:
    """A cache that grows by `cat`: one row a step."""
    recording = Recording()
    step = recording.span("decode_step#0")
    x = step.tensor(1, 1, 64)
    for _ in range(2):
        key, whole = step.tensor(1, 1, 64), step.tensor(1, 33, 64)
        step.op(LINEAR, [x, step.tensor(64, 64), None], key)
        step.op(CAT, [[step.tensor(1, 32, 64), key], 1], whole)
        summed = step.tensor(1, 1, 64)
        schema = "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False) -> Tensor"
        x = step.op(schema, [whole, [1], True], summed)
    step.op(LINEAR, [x, step.tensor(64, 64), None], step.tensor(1, 1, 64))
    return recording


def test_a_static_cache_writes_one_row(tmp_path: Path) -> None:
    recording = grown_cache()
    follow = recording.span("decode_step#1")
    for node in list(recording.nodes):
        if node["name"] == "aten::cat":
            shared = node["outputs"]["values"][0]
            whole = T(shared[0], shared[1], (1, 33, 64), strides=(33 * 64, 64, 1))
            follow.op(SILU, [whole], follow.tensor(1, 33, 64))
    path = recording.write(tmp_path / "a.json")
    result = predict(path, step="step#0", what_if=["static-cache"])
    assert [d["id"] for d in result["doubts"]] == ["growing_state"]
    what_if = result["what_ifs"][0]
    assert what_if["places"] == 2
    assert what_if["counts"]["by_kind"].get("scatter") == 2
    # Two rows of 64 bf16 values are written instead of two caches of 33 rows.
    saved = result["bytes"]["generated_written"] - what_if["bytes"]["generated_written"]
    assert saved == 2 * 32 * 64 * 2


def test_four_bit_weights_keep_the_generated_kernels(tmp_path: Path) -> None:
    path = mlp(2, 256, 512).write(tmp_path / "a.json")
    result = predict(path, what_if=["weight-dtype=int4", "weight-dtype=float32"])
    int4, wide = result["what_ifs"]
    assert int4["counts"]["generated"] == result["counts"]["generated"]
    calls = [entry["op"] for entry in int4["kernels"]["extern"]]
    assert calls == ["aten::_weight_int4pack_mm"] * 7
    # 4 bits instead of 16, and a scale and a zero (2 bytes each) for every 128 weights.
    weights = sum(a["bytes"] for e in int4["kernels"]["extern"] for a in e["reads"][1:])
    full = 2 * (2 * 3 * 256 * 512 + 32000 * 256)
    assert weights == full // 4 + full // 2 // 128 * 4
    assert wide["bytes"]["extern_read"] == 2 * result["bytes"]["extern_read"]


@pytest.mark.parametrize(
    ("what_if", "says"),
    [
        ("unstack-cache", "no stacked cache"),
        ("static-cache", "no growing cache"),
        ("weight-dtype=int3", "is no dtype"),
        ("weight-dtype=bfloat16", "already"),
        ("faster", "unknown what-if"),
    ],
)
def test_a_what_if_that_does_not_apply_says_why(what_if: str, says: str, tmp_path: Path) -> None:
    path = mlp(1, 64, 128).write(tmp_path / "a.json")
    assert says in predict(path, what_if=[what_if])["what_ifs"][0]["error"]


def test_breaks_and_unknown_ops_are_doubts(tmp_path: Path) -> None:
    recording = Recording()
    x, n = recording.tensor(1, 64), recording.tensor(1, dtype="long int")
    y = recording.op(SILU, [x], recording.tensor(1, 64))
    inner = recording.inside("aten::item(Tensor self) -> Scalar", [n], 3)
    inner.op("aten::_local_scalar_dense(Tensor self) -> Scalar", [n], 3)
    z = recording.op("nobody::mystery(Tensor x) -> Tensor", [y], recording.tensor(1, 64))
    recording.op(LINEAR, [z, recording.tensor(64, 64), None], recording.tensor(1, 64))
    result = predict(recording.write(tmp_path / "a.json"))
    assert [d["id"] for d in result["doubts"]] == ["graph_breaks", "unknown_ops"]
    assert len(result["region"]["segments"]) == 2
    assert result["counts"]["generated"] == 1
    assert result["counts"]["extern_calls"] == 2


def test_kernels_of_no_op_are_kept_and_doubted(tmp_path: Path) -> None:
    """A hand-written kernel between the ops of the step, launched from Python."""
    recording = Recording()
    x = recording.tensor(1, 64)
    y = recording.op(SILU, [x], recording.tensor(1, 64))
    recording.op(LINEAR, [y, recording.tensor(64, 64), None], recording.tensor(1, 64))

    def event(cat: str, name: str, ts: int, **args: int) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": 2, "pid": 1, "tid": 1} | {
            "args": {key.replace("_", " "): value for key, value in args.items()}
        }

    events = [
        event("cpu_op", "aten::silu", 10, External_id=1, Record_function_id=1),
        event("cpu_op", "aten::linear", 20, External_id=2, Record_function_id=2),
        event("cuda_runtime", "cuLaunchKernelEx", 15, correlation=5),
        event("kernel", "my_kernel", 30, correlation=5),
        event("kernel", "silu", 32, External_id=1),
        event("kernel", "gemm", 34, External_id=2),
        event("gpu_memset", "Memset (Device)", 33, External_id=2),
    ]
    trace = tmp_path / "k.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    result = predict(recording.write(tmp_path / "a.json"), trace=trace)
    counts = result["counts"]
    assert [d["id"] for d in result["doubts"]] == ["unrecorded_kernels"]
    assert (counts["generated"], counts["extern_kernels"], counts["unrecorded_kernels"]) == (
        1,
        1,
        1,
    )
    assert (counts["total"], counts["memsets"], counts["eager_kernels"]) == (3, 1, 3)
    (call,) = result["kernels"]["extern"]
    assert (call["op"], call["dur_ns"], call["gemm"]) == ("aten::mm", 4000, True)


def test_a_transfer_from_the_host_is_a_doubt(tmp_path: Path) -> None:
    recording = Recording()
    schema = (
        "aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, "
        "bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"
    )
    x = recording.tensor(1, 64)
    there = recording.tensor(1, 64, device="cpu")
    recording.op(schema, [there, "cuda:0", 15, False, False, None], x)
    recording.op(LINEAR, [x, recording.tensor(64, 64), None], recording.tensor(1, 64))
    result = predict(recording.write(tmp_path / "a.json"))
    assert [(d["id"], d["ops"]) for d in result["doubts"]] == [("host_transfers", [0])]


def test_the_local_gpu_has_to_be_there() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(standins.StandinError, match="no GPU"):
        predict(DATA / "gpt2_4_eager.et.json.gz", device="local")


@pytest.mark.skipif(releases.release_of(torch.__version__) < (2, 12), reason="decides so itself")
def test_a_later_release_decides_as_that_of_the_recording() -> None:
    """What the H200 compiled under 2.11: the rotary angle is a library call there."""
    path, trace = (DATA / f"llama4_eager.{kind}json.gz" for kind in ("et.", ""))
    found = predict(path, trace=trace, recorded_torch="2.11.0")
    assert (found["counts"]["generated"], found["counts"]["total"]) == COUNTS["2.11"]["llama4"]
    assert "library call" in found["torch"]["decided_as_recorded"][0]
    assert "decided as 2.11.0 does" in found["torch"]["note"]


def test_changes_between_two_releases() -> None:
    since = [change.since for change in releases.undone("2.13.0+cpu", "2.11.0")]
    assert since == [(2, 12), (2, 13)]
    assert [c.since for c in releases.undone("2.12.1", "2.11.0+cu130")] == [(2, 12)]
    assert releases.undone("2.13.0", "2.13.1") == releases.undone("2.13.0", None) == ()
    # An older release cannot decide as a newer one.
    assert releases.undone("2.11.0", "2.13.0") == ()


def test_what_was_taken_back_is_back_afterwards() -> None:
    from torch._inductor import decomposition

    before = decomposition.decompositions[torch.ops.aten.bmm.default]
    with releases.deciding_as("2.11.0"):
        if releases.release_of(torch.__version__) >= (2, 12):
            during = decomposition.select_decomp_table()[torch.ops.aten.bmm.default]
            assert during is not before
    for table in (decomposition.decompositions, decomposition.select_decomp_table()):
        assert table[torch.ops.aten.bmm.default] is before


def test_an_untested_version_says_so() -> None:
    said = prediction.versions("2.99.1", "2.11.0")
    assert not said["tested"]
    assert "untested" in said["note"]
    assert "recorded with 2.11.0" in said["note"]
    assert prediction.versions("2.13.0+cpu", None)["tested"]
    assert prediction.versions("2.11.3+cu130", None)["tested"]


def test_a_torch_without_a_place_to_stand_in_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cuda, "_maybe_exchange_device")
    with (
        pytest.raises(standins.StandinError, match="_maybe_exchange_device"),
        standins.standing_in(standins.H200),
    ):
        pass


def test_device_properties_of_the_python_exporter() -> None:
    """It writes the SM count as the threads per SM, and no SM count."""
    found, source = standins.properties(
        {"name": "NVIDIA H100", "computeMajor": 9, "maxThreadsPerMultiprocessor": 132}
    )
    assert (found["name"], found["max_threads_per_multi_processor"]) == ("NVIDIA H100", 2048)
    assert source == "recorded"


def test_the_command_writes_the_object_and_names_its_errors(tmp_path: Path) -> None:
    path = mlp(1, 64, 128).write(tmp_path / "a.json.gz")
    out = tmp_path / "o.json"
    command = [sys.executable, "-m", "gaptrace_inductor"]
    env = {"PYTHONPATH": str(Path(prediction.__file__).parents[1]), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [*command, str(path), "-o", str(out)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert result["counts"] == {**result["counts"], "generated": 3, "extern_calls": 4}
    assert result["counts"]["extern_source"] == "one a call"
    out.write_text('{"traceEvents": []}')
    done = subprocess.run(
        [*command, str(out)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "is a Kineto trace" in done.stderr
    assert len(done.stderr.splitlines()) == 1
