"""Short names of kernels: what a person would call them in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from gaptrace.knowledge import symbols
from gaptrace.knowledge.inductor_names import inductor_parts

_LONGEST = 80

# Tensile's contraction index letters say which operand is transposed; the first letter of the type
# field is the operand type.
_LAYOUT = {"Alik_Bljk": "tn", "Ailk_Bljk": "nn", "Ailk_Bjlk": "nt", "Alik_Bjlk": "tt"}
_TENSILE_TYPE = {"B": "bf16", "H": "fp16", "S": "fp32", "D": "fp64", "I": "int8", "F": "fp8"}
_TENSILE = re.compile(r"(?:Custom_)?Cijk_(A\w+?_B\w+?)_([A-Z])\w*?_MT(\d+x\d+x\d+)_.*")
_NVJET = re.compile(r"nvjet_(?:sm\d+_)?\w*?_(\d+x\d+)_\w*?(splitK_)?(bias_)?([NT]{3})(?:_\w*)?")
_XMMA = re.compile(r"(sm\d+_xmma_\w+?)_[a-z]+\d+[a-z]\w*?_tilesize(\d+x\d+x\d+)_.*")
_SASS = re.compile(
    r"(\w+?(?:gemm|cudnn|gemv)\w*?)_(\d+x\d+)(?:x\d+)?_(?:\w*?_)?([nt]{2})(?:_align\d+|_v\d+)?"
)
_CUDNN = re.compile(r"(cudnn_generated_\w+?)_knob_\w*")
_IGEMM = re.compile(r"igemm_(fwd|bwd|wrw)_\w+?_(nhwc|nchw)_(\w+?)_\w*?bt(\d+x\d+x\d+)_.*")
_TRTLLM = re.compile(r"((?:bmm|gemm)_\w+?)_t(\d+x\d+x\d+)\w*")
_CUTE = re.compile(r"kernel_cutlass_([a-z0-9_]+?)_(?:[a-z0-9_]*)([A-Z]\w*?)_object_at.*")
_NCCL = re.compile(r"(?:nccl|rccl)(?:Dev|SymDev)?Kernel_(\w+)")
_TRITON_SIGNATURE = re.compile(r"_0d(?:\d+[cde]*)*$")

# Templates of ATen that run any functor; the functor is what a person wants to know.
_ATEN_SHELLS = {
    "vectorized_elementwise_kernel": "elementwise",
    "vectorized_templated_elementwise_kernel": "elementwise",
    "unrolled_elementwise_kernel": "elementwise",
    "unrolled_elementwise_kernel_for_multi_outputs": "elementwise",
    "elementwise_kernel_manual_unroll": "elementwise",
    "elementwise_kernel_with_index": "elementwise",
    "elementwise_kernel": "elementwise",
    "index_elementwise_kernel": "elementwise",
    "_scatter_gather_elementwise_kernel": "elementwise",
    "distribution_elementwise_grid_stride_kernel": "distribution",
    "reduce_kernel": "reduce",
    "multi_tensor_apply_kernel": "multi_tensor_apply",
}
_FUNCTORS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b(\w*?)_?kernel_cuda\b",
        r"\b(\w+?)CUDAKernelImpl\b",
        r"\bat::native::(?:\w+::)*(\w+?)_cuda_out\b",
        r"(scatter_gather)\w*_(?:internal|kernel)\b",
        r"\blaunch_(\w+?)(?:_kernel)?\(",
        r"\b(?!gpu_index)(\w+?)_kernel(?:_impl)?\b(?=[<(])",
        r"\bCUDAFunctor(?:OnSelf|OnOther)?_(\w+)",
        r"\b(\w+)_functor\b",
        r"\bat::native::(?:\w+::)*(\w+_cuda)\(",
        r"\bat::native::(\w+_out_cuda\w*|copy_device_to_device|addcmul\w*|lerp\w*)\b",
        r"\bstd::(plus|minus|multiplies|divides)\b",
        r"\b(?!AUnary|BUnary|Binary|Unary|Pointwise)([A-Z]\w*?)Functor\b",
        r"\b(?!Reduce)([A-Z]\w+?)Ops\b",
        r"\b(uniform|normal|exponential|bernoulli)\w*_and_transform",
        r"\bat::native::(?!\w*Functor\b)([A-Z]\w+)<",
        r"\bat::native::(?:\w+::)*([a-z]\w+)\(",
        r"\b(\w+?)Functor\b",
    )
)


def _snake(word: str) -> str:
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower().removesuffix("_cuda").strip("_")
    return text.replace("arg_m", "argm")


def _functor(text: str) -> str:
    for pattern in _FUNCTORS:
        if (match := pattern.search(text)) and match[1]:
            return _snake(match[1])
    return ""


def _aten(text: str, head: str) -> str | None:
    shell = _ATEN_SHELLS.get(head.rpartition("::")[2])
    if shell is None:
        return None
    # What is left after the names of the shells themselves.
    inner = re.sub(
        r"gpu_(?:index_)?kernel(?:_impl\w*)?|TensorList\w*Metadata|\b\w*elementwise_kernel\w*|"
        r"\b\w*(?:ListAlpha|ListMeta)\w*",
        "",
        text[len(head) :],
    )
    functor = _functor(inner)
    # Apex has the multi-tensor template too, outside ATen.
    space = "at::native::" if "at::native" in text else ""
    return f"{space}{shell}<{functor}>" if functor else f"{space}{shell}"


def _inductor(name: str) -> str | None:
    if (parts := inductor_parts(name)) is None:
        return None
    if parts.kind == "unknown" and parts.number is None:
        return "triton (unnamed)"
    ops = parts.computing or parts.ops
    kind = name[: len("triton_xxx")]
    return f"{kind} {'_'.join(ops)}" if ops else f"{kind} {parts.number}"


def _library(name: str) -> str | None:
    """Names whose fields are packed into one identifier: the tile and layout are what differs."""
    if match := _NVJET.fullmatch(name):
        tags = [tag.rstrip("_") for tag in (match[2], match[3]) if tag]
        return " ".join(["nvjet", match[1], match[4].lower(), *tags])
    if match := _TENSILE.fullmatch(name):
        kind = _TENSILE_TYPE.get(match[2], match[2])
        return f"Tensile {kind} {match[3]} {_LAYOUT.get(match[1], match[1])}"
    if match := _IGEMM.fullmatch(name):
        return f"igemm {match[1]} {match[2]} {match[3]} {match[4]}"
    if match := _NCCL.match(name):
        return f"nccl {match[1]}"
    if match := _XMMA.fullmatch(name):
        return f"{match[1]} {match[2]}"
    if match := _TRTLLM.fullmatch(name):
        return f"trtllm {match[1]} {match[2]}{' swiGlu' if 'swiGlu' in name else ''}"
    if match := _CUTE.fullmatch(name):
        return f"CuTe {match[2]}" if match[1] == "kernel" else f"CuTe {match[2]}.{match[1]}"
    if match := _CUDNN.fullmatch(name):
        return match[1]
    if match := _SASS.fullmatch(name):
        return f"{match[1]} {match[2]} {match[3]}"
    return None


# Launch shells: the template argument is the kernel, the function only its entry.
_SHELLS = {"device_kernel", "Kernel", "Kernel2", "kentry", "kernel", "trampoline_kernel"}
_INNER = re.compile(
    r"\b(cutlass_\w*\d\w*|GemmUniversal\w*|FlashAttn\w+?(?=<)|\w*(?:Fmha|Mla|[nN]orm2d|Sorting|Conv"
    r"|Gemm|Softmax|Reduce)\w*|wrapped_\w+(?=_config))"
)


def _generic(text: str) -> str:
    head = symbols.head(text)
    spaces = head.split("::")
    if spaces[-1] in _SHELLS and (inner := _INNER.search(text, len(head))):
        label = inner[1]
        own = label if label.startswith("cutlass") else f"{spaces[0]} {label}"
        return _library(label) or own
    return head if len(head) <= _LONGEST - 20 else "::".join(spaces[-2:])


@lru_cache(maxsize=65536)
def short_name(name: str) -> str:
    """The name a person recognises: `at::native::elementwise<silu>`, `nvjet 64x8 tnt`.

    Return types, parameters, most template arguments and generated suffixes fall away; different
    kernels may share a short name. At most 80 characters; empty only if the name is.
    """
    text = symbols.readable(name)
    if text.startswith(("Memcpy", "Memset")):
        return _cut(text)
    head = symbols.head(text)
    short = _inductor(text) or _aten(text, head) or _library(head) or _generic(text)
    return _cut(_TRITON_SIGNATURE.sub("", short) or short)


def _cut(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


_TOKEN = re.compile(r"[A-Za-z0-9]+")
# Words of C++ and of ATen's launch shells, which say nothing about a kernel.
_NOISE_WORDS = (
    "at c10 char const cuda detail false gpu impl int kernel lambda memory native nocast operator "
    "std true unsigned void"
)
_NOISE = frozenset(_NOISE_WORDS.split())
# Of what tells two names apart, as much as fits beside a short name.
_APART = 32


def short_names(
    names: Iterable[str], launched_by: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Short name by full name, no two alike: what one short name hides is put behind it.

    Names that share a short name keep, in brackets, the template arguments or fields in which they
    differ, as few as tell them apart: `nvjet 64x8 tnt [4x1]`, `at::native::reduce<sum> [long]`.
    Where that is too much to show, the op of launched_by stands there, and else a number. At most
    80 characters each.
    """
    alike: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        alike.setdefault(short_name(name), []).append(name)
    found: dict[str, str] = {}
    for short, group in alike.items():
        ops = [(launched_by or {}).get(name, "") for name in group]
        marks = _marks(group, ops) if len(group) > 1 else ("",)
        for name, mark in zip(group, marks, strict=True):
            tail = f" [{mark}]" if mark else ""
            found[name] = _cut(short, _LONGEST - len(tail)) + tail
    return found


def _marks(group: Sequence[str], ops: Sequence[str]) -> tuple[str, ...]:
    texts = [symbols.readable(name) for name in group]
    tokens = [_TOKEN.findall(text) for text in texts]
    choices = [_apart([tuple(dict.fromkeys(row)) for row in tokens])]
    if len({len(row) for row in tokens}) == 1:
        # The same template: the arguments that are not the same everywhere.
        columns = [column for column in zip(*tokens, strict=True) if len(set(column)) > 1]
        choices.insert(0, _fewest(list(zip(*columns, strict=True))))
    choices.append(tuple(ops) if all(ops) and len(set(ops)) == len(ops) else None)
    numbers = tuple(f"#{index}" for index in range(1, len(group) + 1))
    return next((marks for marks in choices if marks is not None), numbers)


def _apart(rows: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    shared = frozenset(rows[0]).intersection(*rows) | _NOISE
    # Types and words before numbers: `BFloat16` says more than the width of a vector.
    own = [[token for token in row if token not in shared] for row in rows]
    return _fewest([tuple(sorted(row, key=str.isdigit)) for row in own])


def _fewest(rows: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    """The shortest beginnings of the rows that differ, None where they are too long to show."""
    for count in range(1, max(map(len, rows), default=0) + 1):
        marks = tuple(" ".join(row[:count]) for row in rows)
        if max(map(len, marks)) > _APART:
            break
        if len(set(marks)) == len(marks):
            return marks
    return None


_FRAME = re.compile(r"(?:.*/)?([^/]+\.pyx?)\((\d+)\): (.+)")
_BUILT_IN = re.compile(r"<built-in (?:function|method) (\S+?)(?: of (.+?)(?: object)?)?>")


def frame_name(name: str) -> str:
    """A Python frame by its function first: `wait (serve.py:40)`, `sleep (built-in)`.

    Names of another form are left as they are.
    """
    if found := _FRAME.fullmatch(name):
        return f"{found[3]} ({found[1]}:{found[2]})"
    if found := _BUILT_IN.fullmatch(name):
        of = f" of {found[2].rpartition('.')[2]}" if found[2] and found[2] != "type" else ""
        return f"{found[1]} (built-in{of})"
    return name
