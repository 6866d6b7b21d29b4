"""Op class, backend and the rules behind them."""

from __future__ import annotations

import csv
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
    sub_classes,
)
from gaptrace.knowledge.tables import table
from gaptrace.vocabulary import OP_CLASSES
from tests.knowledge.names import NAMES


@pytest.mark.parametrize(("name", "op_class", "backend"), NAMES, ids=[n[0][:60] for n in NAMES])
def test_class_and_backend(name: str, op_class: str, backend: str) -> None:
    kind = classify(name)
    assert (kind.op_class, kind.backend) == (op_class, backend)


def test_the_classes_are_the_six_in_their_order() -> None:
    assert list(OP_CLASSES) == [
        "gemm",
        "attention",
        "communication",
        "pointwise",
        "copy",
        "other",
    ]
    assert OP_CLASSES["pointwise"].label == "pointwise/reduction"


def test_every_rule_is_the_first_match_of_some_name() -> None:
    rules = table("kernel_rules.toml")["rule"]
    hit = {kernel_names._matching_rule(name).index for name, _, _ in NAMES if name}
    missed = [rules[index]["pattern"] for index in range(len(rules)) if index not in hit]
    assert missed == []


def test_rules_use_declared_classes_and_backends_and_say_why() -> None:
    rules = table("kernel_rules.toml")["rule"]
    for rule in rules:
        assert set(rule) <= {
            "pattern", "where", "class", "sub", "otherwise", "backend", "only", "unless", "why",
        }  # fmt: skip
        assert rule["class"] in {*OP_CLASSES, "words", "ops"}
        assert rule.get("otherwise", "other") in OP_CLASSES
        assert rule.get("sub", "other") in sub_classes()
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


def wild() -> list[dict[str, str]]:
    text = Path(__file__).with_name("wild_kernels.tsv").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_kernels_of_serving_engines_have_the_class_that_their_source_gives() -> None:
    rows = [(row["name"], classify(row["name"]).op_class, row["class"]) for row in wild()]
    assert len(rows) > 550
    assert [row for row in rows if row[1] != "other" and row[1] not in row[2].split("|")] == []


def test_at_most_a_twentieth_of_the_engines_kernels_is_other() -> None:
    for drawn in (False, True):
        names = [row["name"] for row in wild() if row["file"].startswith("drawn") is drawn]
        other = [name for name in names if classify(name).op_class == "other"]
        assert len(other) <= 0.05 * len(names), other


@pytest.mark.parametrize(
    ("name", "op_class", "sub_class"),
    [
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", "gemm", "dense_gemm"),
        ("fused_moe_kernel", "gemm", "moe_gemm"),
        ("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_swiGlu", "gemm", "moe_gemm"),
        (
            "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<"
            "cutlass::gemm::GroupProblemShape<cute::tuple<int>>>>(P)",
            "gemm",
            "moe_gemm",
        ),
        ("_lora_shrink_kernel", "gemm", "lora_gemm"),
        ("void cudnn::cnn::wgrad_alg0_engine<float>(int)", "gemm", "convolution"),
        ("void vllm::moe::topkGating<8>(float*)", "pointwise", "moe_routing"),
        ("moe_align_block_size_kernel", "pointwise", "moe_routing"),
        ("flashinfer::BatchPrefillWithPagedKVCacheKernel", "attention", "attention_prefill"),
        ("flashinfer::BatchDecodeWithPagedKVCacheKernel", "attention", "attention_decode"),
        ("void flash::flash_fwd_splitkv_kernel<T>(P)", "attention", "attention_decode"),
        ("void flash::flash_fwd_splitkv_combine_kernel<T>(P)", "attention", "attention_combine"),
        ("void flash::flash_fwd_kernel<T>(P)", "attention", "attention"),
        ("void deep_gemm::sm90_fp8_paged_mqa_logits<1u>(int)", "attention", "attention_indexer"),
        ("fused_recurrent_kda_fwd_kernel", "attention", "linear_attention"),
        ("_selective_scan_update_kernel", "attention", "linear_attention"),
        ("vllm::reshape_and_cache_flash_kernel", "pointwise", "kv_cache_write"),
        ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0", "pointwise", "norm"),
        ("vllm::rms_norm_static_fp8_quant_kernel", "pointwise", "norm"),
        ("vllm::rotary_embedding_kernel", "pointwise", "rotary"),
        ("vllm::silu_and_mul_per_block_quant_kernel", "pointwise", "activation"),
        ("vllm::dynamic_scaled_int8_quant_kernel", "pointwise", "quantize"),
        ("flashinfer::sampling::TopKTopPSamplingFromProbKernel", "pointwise", "sampling"),
        ("verify_tree_greedy_kernel_triton", "pointwise", "speculative"),
        ("triton_poi_fused_add_0", "pointwise", "other_pointwise"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(P)", "communication", "all_reduce"),
        ("ncclDevKernel_AllGather_RING_LL(P)", "communication", "collective"),
        ("void deep_ep::intranode::dispatch<1>(int)", "communication", "all_to_all"),
        ("Memcpy HtoD (Pageable -> Device)", "copy", "copy"),
        ("void acme::widget<int>(int)", "other", "other"),
    ],
)
def test_sub_classes(name: str, op_class: str, sub_class: str) -> None:
    kind = classify(name)
    assert (kind.op_class, kind.sub_class) == (op_class, sub_class)


def test_every_sub_class_belongs_to_one_class_and_each_class_has_one_for_the_rest() -> None:
    rows = table("kernel_rules.toml")["sub_class"]
    assert len({row["id"] for row in rows}) == len(rows) == len(sub_classes())
    assert [row["class"] for row in rows if "words" not in row] == list(OP_CLASSES)


@pytest.mark.parametrize(
    ("name", "op_class"),
    [
        # A layout of the weights in the template arguments is no repacking kernel.
        ("void cutlass::device_kernel<machete::Machete<PrepackedLayoutBTemplate<T>>>(P)", "gemm"),
        ("void machete::prepack_B_kernel<T>(int)", "pointwise"),
        # `split_k` is not in `split_kernel`, nor `gemm` in the name of a library.
        ("_page_split_kernel", "pointwise"),
        ("_silu_mul_fp8_quant_deep_gemm", "pointwise"),
        # Triton's `_fwd_kernel` is attention where nothing else is said.
        ("_fwd_kernel_ep_scatter_2", "pointwise"),
        ("_fwd_kernel", "attention"),
        # The function's own name before the namespaces that it lives in.
        ("void tensorrt_llm::kernels::cutlass_kernels::dequantFP8Kernel<T>(int)", "pointwise"),
        ("void flashinfer::nvfp4_attention_sm120::scaled_fp4_quant_kernel<T>(int)", "pointwise"),
        ("void turbomind::gemm::quantize<T>(int)", "pointwise"),
        ("void turbomind::attention::reduce<128>(int)", "attention"),
        # What packs for a collective waits for nobody.
        ("_dcp_a2a_pack_send_kernel", "pointwise"),
        ("_kv_lora_rank_store_cache_kernel", "pointwise"),
    ],
)
def test_words_are_whole_words(name: str, op_class: str) -> None:
    assert classify(name).op_class == op_class


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
    assert kind.op_class in OP_CLASSES
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
    assert set(time) == set(OP_CLASSES)
