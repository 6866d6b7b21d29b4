"""The ATen op behind a kernel, under one spelling for plain and for compiled kernels."""

from __future__ import annotations

import re
from functools import lru_cache

from gaptrace.knowledge.inductor_names import inductor_parts
from gaptrace.knowledge.kernel_names import classify

# One name for what eager, Inductor and kernel names call differently. Eager reports the innermost
# op of a launch, Inductor the op that was traced.
_SPELLINGS = {
    "copy": "_to_copy clone contiguous convert_element_type to direct_copy bfloat16_copy "
    "float16_copy copy_device_to_device",
    "index_select": "embedding index_select_small_index index_select_large_index",
    "full": "fill zero zeros ones full_like zeros_like ones_like new_zeros new_full scalar_tensor",
    "pow": "pow_tensor_scalar pow_tensor_tensor",
    "add": "plus",
    "sub": "minus",
    "mul": "multiplies",
    "div": "divides true_divide",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "native_layer_norm": "layer_norm vectorized_layer_norm",
    "native_group_norm": "group_norm",
    "sum": "sum_functor",
    "index_put": "_index_put_impl _unsafe_index_put",
    "index": "_unsafe_index",
    # Comparisons share one functor in kernel names, so they share one name here.
    "compare": "le lt ge gt eq ne",
}
_SAME = {other: name for name, others in _SPELLINGS.items() for other in others.split()}
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
