"""Public situations rebuilt as small traces, and every recorded trace under its right kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gaptrace.analysis import analyze
from gaptrace.measure.options import Options
from gaptrace.reading.loading import load

EXPECTED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "cases_expected.json").read_text()
)
# Trace -> what finds the steps, what they are, how many of them count.
KINDS = {
    "gpt2_4_compiled": ("repeated annotations", "decode"),
    "gpt2_4_eager": ("repeated annotations", "decode"),
    "gpt2_4_graph_compiled": ("repeated annotations", "decode"),
    "gpt2_4_graph_eager": ("repeated annotations", "decode"),
    "llama4_compiled": ("repeated annotations", "decode"),
    "llama4_eager": ("repeated annotations", "decode"),
    "llama4_graph_compiled": ("repeated annotations", "decode"),
    "llama4_graph_eager": ("repeated annotations", "decode"),
    "plain_compiled": ("repeated annotations", "decode"),
    "plain_eager": ("repeated annotations", "decode"),
    "plain_graph_eager": ("repeated annotations", "decode"),
    "plain_reduce_overhead": ("repeated annotations", "decode"),
    "alexnet_a100": ("whole trace", "inference"),
    "compile_cudagraph_training_rtx3060": ("ProfilerStep", "training"),
    "compile_gtx1650_skewed_clocks": ("compiled regions", "inference"),
    "compile_tiny_mi300x": ("whole trace", "inference"),
    "compile_training_rtx3060": ("ProfilerStep", "training"),
    "cpu_only_rank34": (None, "inference"),
    "gpu_only_mi210": ("whole trace", "training"),
    "hf_forward_mi300x_missing_launches": ("ProfilerStep", "inference"),
    "moe_before_b200x2": ("ProfilerStep", "inference"),
    "moe_syncless_b200x2": ("ProfilerStep", "inference"),
    "ns_resolution_v100": ("ProfilerStep", "training"),
    "resnet50_2020_toplevel_list": ("ProfilerStep", "training"),
    "resnet50_2021_v100": ("ProfilerStep", "training"),
    "sam_compiled_a100": ("compiled regions", "inference"),
    "sam_eager_a100": ("repeating kernels", "inference"),
    "sglang_decode_mi300x_qwen3_30b": ("engine labels", "decode"),
    "sglang_prefilldecode_mi300x": ("engine labels", "inference"),
    "torchrec_4ranks_rank0": ("ProfilerStep", "training"),
    "torchrec_4ranks_rank1": ("ProfilerStep", "training"),
    "torchrec_4ranks_rank2": ("ProfilerStep", "training"),
    "torchrec_4ranks_rank3": ("ProfilerStep", "training"),
    "training_cudagraph_v100": ("ProfilerStep", "training"),
    "vllm_eager_b200_rank0": ("engine labels", "inference"),
    "vllm_piecewise_hipgraph": ("engine labels", "inference"),
}
SAMPLES = {"small_decoder_compiled", "small_decoder_eager", "small_decoder_graph"}


def at(data: Any, path: str) -> Any:
    for key in path.split("."):
        data = data.get(key) if isinstance(data, dict) else None
    return data


def near(found: float | None, wanted: float) -> bool:
    return found is not None and abs(found - wanted) <= 0.02 * abs(wanted)


@pytest.mark.corpus
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_cases(corpus: Path, name: str) -> None:
    case = EXPECTED[name]
    assert case["args"] == []
    found = analyze(load(corpus.parent / "cases" / f"{name}.json.gz"), Options()).summary
    verdict = found["quality"]["verdict"]
    assert verdict in case["verdict"]
    for path, wanted in case["equal"].items():
        value = at(found, path)
        if wanted is None:
            assert not value, path
        elif value is None:
            assert case["null_ok"], path
            assert verdict != "ok", path
        else:
            assert near(value, wanted), (path, value)
    for path, wrong in case["never"].items():
        assert not any(near(at(found, path), value) for value in wrong), path
    said = json.dumps([found["sentence"], found["quality"], found["findings"]]).lower()
    assert not case["reason"] or any(word in said for word in case["reason"])


@pytest.mark.corpus
@pytest.mark.parametrize("name", sorted(KINDS))
def test_recorded_traces_are_what_they_are(corpus: Path, name: str) -> None:
    (path,) = corpus.glob(f"*/{name}.json.gz")
    found = analyze(load(path)).result
    assert (found.steps.rule, found.steps.kind) == KINDS[name]
    tokens = found.rate.tokens_per_s is not None
    assert tokens == (found.steps.kind == "decode")
    assert tokens == found.sentence.startswith("Decode")


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_decode_recorded_with_nothing_but_the_profiler_is_decode(name: str) -> None:
    path = Path(__file__).parents[2] / "sample_traces" / f"{name}.json.gz"
    found = analyze(load(path)).result.steps
    assert (found.rule, found.kind, found.count, found.complete) == ("ProfilerStep", "decode", 8, 7)
