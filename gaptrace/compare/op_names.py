"""The ATen op behind a kernel, under one spelling for plain and for compiled kernels."""

from __future__ import annotations

import re
from functools import lru_cache

from gaptrace.knowledge.kernel_names import classify, inductor_parts

# One name for what eager, Inductor and kernel names call differently. Eager reports the innermost
# op of a launch, Inductor the op that was traced.
_SAME = {
    "_to_copy": "copy",
    "clone": "copy",
    "contiguous": "copy",
    "convert_element_type": "copy",
    "to": "copy",
    "direct_copy": "copy",
    "bfloat16_copy": "copy",
    "float16_copy": "copy",
    "copy_device_to_device": "copy",
    "embedding": "index_select",
    "index_select_small_index": "index_select",
    "index_select_large_index": "index_select",
    "fill": "full",
    "zero": "full",
    "zeros": "full",
    "ones": "full",
    "full_like": "full",
    "zeros_like": "full",
    "ones_like": "full",
    "new_zeros": "full",
    "new_full": "full",
    "scalar_tensor": "full",
    "pow_tensor_scalar": "pow",
    "pow_tensor_tensor": "pow",
    "plus": "add",
    "minus": "sub",
    "multiplies": "mul",
    "divides": "div",
    "true_divide": "div",
    "softmax": "_softmax",
    "log_softmax": "_log_softmax",
    "layer_norm": "native_layer_norm",
    "vectorized_layer_norm": "native_layer_norm",
    "group_norm": "native_group_norm",
    "sum_functor": "sum",
    "index_put": "index_put",
    "_index_put_impl": "index_put",
    "_unsafe_index": "index",
    "_unsafe_index_put": "index_put",
}
# Comparisons share one functor in kernel names, so they share one name here.
_SAME |= dict.fromkeys(("le", "lt", "ge", "gt", "eq", "ne"), "compare")
_INNER = re.compile(r"<([a-z]\w*)>$")
_BARE = {"CatArrayBatchedCopy": "cat", "CatArrayBatchedCopy_vectorized": "cat"}
_BARE |= {"indexSelectSmallIndex": "index_select", "indexSelectLargeIndex": "index_select"}


def canonical(op: str) -> str:
    """The op without namespace, overload and in-place mark, under its one spelling."""
    name = op.rpartition("::")[2].partition(".")[0]
    name = name.rstrip("_") or name
    return _SAME.get(name, name)


@lru_cache(maxsize=16384)
def op_of(name: str, recorded: str) -> str:
    """The op of a plain kernel: as recorded, else as far as its name tells; empty if unknown.

    A compiled kernel has many ops and none of its own: see `ops_of_compiled`.
    """
    if inductor_parts(name) is not None:
        return ""
    if recorded.startswith("aten::"):
        return canonical(recorded)
    if name.startswith("Memset"):
        return "full"
    if name.startswith("Memcpy"):
        return "copy"
    short = classify(name).short
    if (inner := _INNER.search(short)) is not None:
        return canonical(inner[1])
    return _BARE.get(short.rpartition("::")[2], "")


@lru_cache(maxsize=16384)
def ops_of_compiled(name: str) -> tuple[str, ...]:
    """The ops that a compiled kernel does, views left out; empty for any other kernel.

    A kernel that only copies is one of `copy`.
    """
    parts = inductor_parts(name)
    if parts is None:
        return ()
    found = {canonical(op) for op in parts.computing}
    found |= {canonical(op) for op in parts.ops if canonical(op) == "copy"}
    return tuple(sorted(found))
