"""Words of identifiers."""

from __future__ import annotations

import pytest

from gaptrace.knowledge.symbols import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vllm::FusedAddRMSNormKernel", "vllm fused add rmsnorm kernel"),
        ("topkGatingSoftmax", "topk gating softmax"),
        ("moeA2ADispatchKernel", "moe a2a dispatch kernel"),
        ("_w8a8_block_fp8_matmul", "w8a8 block fp8 matmul"),
        ("fp8QuantSm100Fmha", "fp8 quant sm100 fmha"),
        ("BatchDecodeWithPagedKVCacheKernel", "batch decode with paged kv cache kernel"),
        ("RoPEQuantize", "rope quantize"),
        ("wvSplitK_hf_sml_", "wv splitk hf sml"),
        ("", ""),
    ],
)
def test_words(text: str, expected: str) -> None:
    assert words(text) == expected
