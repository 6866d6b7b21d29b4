"""Op class, backend and the rules behind them."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest

from gaptrace.knowledge import kernel_names
from gaptrace.knowledge.kernel_names import (
    backends,
    classify,
    is_split_k_reducer,
    op_classes,
)
from gaptrace.knowledge.tables import table
from tests.knowledge.names import NAMES


@pytest.mark.parametrize(("name", "op_class", "backend"), NAMES, ids=[n[0][:60] for n in NAMES])
def test_class_and_backend(name: str, op_class: str, backend: str) -> None:
    kind = classify(name)
    assert (kind.op_class, kind.backend) == (op_class, backend)


def test_the_classes_are_the_six_in_their_order() -> None:
    assert list(op_classes()) == [
        "gemm",
        "attention",
        "communication",
        "pointwise",
        "copy",
        "other",
    ]
    assert op_classes()["pointwise"] == "pointwise/reduction"


def test_every_rule_is_the_first_match_of_some_name() -> None:
    rules = table("kernel_rules.toml")["rule"]
    hit = {kernel_names._matching_rule(name).index for name, _, _ in NAMES if name}
    missed = [rules[index]["pattern"] for index in range(len(rules)) if index not in hit]
    assert missed == []


def test_rules_use_declared_classes_and_backends_and_say_why() -> None:
    rules = table("kernel_rules.toml")["rule"]
    for rule in rules:
        assert set(rule) <= {
            "pattern", "where", "class", "otherwise", "backend", "only", "unless", "why",
        }  # fmt: skip
        assert rule["class"] in {*op_classes(), "words", "ops"}
        assert rule.get("otherwise", "other") in op_classes()
        assert ("otherwise" in rule) == (rule["class"] == "words")
        assert rule["backend"] in backends()
        assert rule["why"]
    assert {rule["backend"] for rule in rules} == set(backends())


def test_a_name_in_another_order_of_rules_is_not_reached_by_its_words() -> None:
    # The fused op list names attention and matrix products; the kernel does neither.
    assert classify("triton_poi_fused_addmm_flex_attention_mul_1").op_class == "pointwise"
    # The epilogue fuses a norm; the kernel waits for other GPUs.
    assert classify("flashinfer::comm::allreduce_fusion_kernel<rmsnorm>").op_class == (
        "communication"
    )
    # `fbgemm` is a library, not a GEMM.
    assert classify("void fbgemm_gpu::permute_2D_data_kernel<int>(int)").op_class == "pointwise"


def test_parameters_do_not_decide() -> None:
    kind = classify("void acme::widget<int>(cudnnTensorStruct, cublasGemvParams, ncclComm*)")
    assert (kind.op_class, kind.backend) == ("other", "unknown")
    kind = classify("void vllm::rms_norm_kernel<float>(cutlass::Array<float>, ncclComm*)")
    assert (kind.op_class, kind.backend) == ("pointwise", "vLLM")


def test_split_k_reducers_are_told_from_their_gemms() -> None:
    assert is_split_k_reducer("void cublasLt::splitKreduce_kernel<32, 16, int>(X)")
    assert not is_split_k_reducer("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT")


HOSTILE = {
    "nul": "\x00",
    "open": "<<<<(((",
    "mangled": "_Z",
    "nested": "_ZN",
    "deep": "_Z1fI" + "P" * 3000,
    "echo": "_ZN1aI" + "S_" * 2000,
    "long": "a" * 200_000,
    "underscores": "triton_poi_fused_" + "_" * 5000,
    "void": "void ",
    "paren": "(",
    "right-to-left": "\u202e",
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_get_an_answer(name: str) -> None:
    kind = classify(name)
    assert kind.op_class in op_classes()
    assert 0 < len(kind.short) <= 80


@pytest.mark.corpus
def test_at_most_a_twentieth_of_the_recorded_kernel_time_is_other(corpus: Path) -> None:
    time: defaultdict[str, float] = defaultdict(float)
    files = [path for path in sorted(corpus.rglob("*.json.gz")) if ".et." not in path.name]
    assert files
    for path in files:
        document = json.loads(gzip.decompress(path.read_bytes()).decode(errors="replace"))
        events = document if isinstance(document, list) else document["traceEvents"]
        for event in events:
            category = str(event.get("cat")).lower()
            if event.get("ph") == "X" and category in ("kernel", "gpu_memcpy", "gpu_memset"):
                time[classify(event["name"]).op_class] += float(event.get("dur") or 0)
    assert time["other"] < 0.05 * sum(time.values())
    assert set(time) == set(op_classes())
