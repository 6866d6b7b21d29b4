"""Turns one recorded op into a call of `torch.ops`: the overload, and arguments of the right kind.

Recorded arguments are plain numbers; the schema recorded beside them says which are dtypes,
layouts or memory formats. An operator that this torch does not know is registered from its
recorded schema as an opaque one, so that the step can be rebuilt around it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .execution_trace import Op, TensorRef, tensors

if TYPE_CHECKING:
    from collections.abc import Callable

# c10::ScalarType in the order of its enum; the observer writes the number.
SCALAR_TYPES = tuple(
    re.findall(
        r"\w+",
        "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool "
        "qint8 quint8 qint32 bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 "
        "float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64 uint1 "
        "uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 int7 float8_e8m0fnu "
        "float4_e2m1fn_x2",
    ),
)
MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
# What TypeMeta::name() prints, for the dtypes that tensors of a decode step have.
CPP_DTYPES = {
    "float": "float32",
    "double": "float64",
    "bool": "bool",
    "unsigned char": "uint8",
    "signed char": "int8",
    "short int": "int16",
    "short": "int16",
    "int": "int32",
    "long int": "int64",
    "long": "int64",
    "long long": "int64",
    "__int64": "int64",
    "unsigned short": "uint16",
    "short unsigned int": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
    "long unsigned int": "uint64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz",
    "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::Float8_e8m0fnu": "float8_e8m0fnu",
    "c10::Float4_e2m1fn_x2": "float4_e2m1fn_x2",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
}
OPAQUE = "gaptrace_opaque"


@dataclass(frozen=True)
class Argument:
    """One argument of a recorded schema: its type text, its name, how it may be passed."""

    kind: str
    name: str
    keyword_only: bool
    written: bool


@dataclass(frozen=True)
class Call:
    """An operator ready to be called: `target(*args, **kwargs)` with TensorRefs for tensors.

    `written` are the tensors it changes in place. `takes_numbers` says whether a Python number
    may stand where the schema has a tensor.
    """

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    written: tuple[TensorRef, ...]
    opaque: bool
    takes_numbers: bool


class UnknownOpError(LookupError):
    """This torch has no such operator, and none can be made from what was recorded."""


def dtype_of(name: str) -> torch.dtype:
    """The torch dtype of a recorded C++ type name.

    Raises:
        UnknownOpError: the name stands for no dtype of this torch.
    """
    dtype = getattr(torch, CPP_DTYPES.get(name, name), None)
    if not isinstance(dtype, torch.dtype):
        raise UnknownOpError(f"no dtype for {name!r}")
    return dtype


def arguments(schema: str) -> tuple[Argument, ...]:
    """The arguments of a schema text such as `aten::add.Tensor(Tensor self, ...) -> Tensor`."""
    text = schema[schema.index("(") + 1 : _closing(schema)]
    listed: list[Argument] = []
    keyword_only = False
    for part in _commas(text):
        if part == "*":
            keyword_only = True
            continue
        kind, _, name = part.split("=")[0].strip().rpartition(" ")
        if not kind:
            continue
        alias = re.search(r"\(([^)]*)\)", kind)
        listed.append(
            Argument(
                re.sub(r"\([^)]*\)", "", kind),
                name,
                keyword_only,
                bool(alias and "!" in alias.group(1)),
            )
        )
    return tuple(listed)


def overload_of(op: Op) -> Any:
    """The installed overload that `op` called, or None where this torch has none."""
    qualified = op.schema.split("(")[0]
    namespace, _, rest = qualified.partition("::")
    name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace, None), name, None)
    return getattr(packet, overload or "default", None)


def call_of(op: Op) -> Call:
    """The call that repeats `op`.

    Raises:
        UnknownOpError: neither this torch nor the recorded schema gives a callable.
    """
    target, opaque = overload_of(op), False
    if target is None:
        target, opaque = _register(op), True
    known = {argument.name for argument in target._schema.arguments}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    written: list[TensorRef] = []
    for argument, value in zip(arguments(op.schema), op.inputs, strict=False):
        if argument.written:
            written += tensors(value)
        converted = _convert(argument.kind, value)
        if argument.keyword_only:
            if converted is not None and argument.name in known:
                kwargs[argument.name] = converted
        else:
            args.append(converted)
    while args and args[-1] is None and len(args) > 1:
        args.pop()
    allowed = getattr(torch._C, "_should_allow_numbers_as_tensors", None)
    numbers = allowed is None or bool(allowed(op.name.split("::")[-1]))
    return Call(target, tuple(args), kwargs, tuple(written), opaque, numbers)


def is_composite(op: Op) -> bool:
    """True for an operator that only calls others, which a tracer therefore looks into."""
    if overload_of(op) is None:
        return True
    name = op.schema.split("(")[0]
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))


def is_inert(op: Op) -> bool:
    """True for an op that neither returns nor writes a tensor (`result_type`, a size query)."""
    returns = any(True for _ in tensors(list(op.outputs)))
    return not returns and "!" not in op.schema


def _convert(kind: str, value: Any) -> Any:
    base = kind.rstrip("?")
    if value is None or base in ("Generator", "Storage"):
        return None
    if base == "ScalarType" and isinstance(value, int):
        return getattr(torch, SCALAR_TYPES[value])
    if base == "Layout":
        return torch.strided
    if base == "MemoryFormat" and isinstance(value, int):
        return getattr(torch, MEMORY_FORMATS[value])
    if base == "Device":
        return torch.device(value)
    if base == "ScalarType[]":
        return [getattr(torch, SCALAR_TYPES[item]) for item in value]
    if base in ("float", "float[]") and isinstance(value, int):
        return float(value)
    return value


def _closing(schema: str) -> int:
    depth = 0
    for at, char in enumerate(schema):
        depth += (char in "([") - (char in ")]")
        if char == ")" and depth == 0:
            return at
    return len(schema)


def _commas(text: str) -> list[str]:
    parts, depth, start, quoted = [], 0, 0, False
    for at, char in enumerate(text):
        quoted ^= char in "\"'"
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0 and not quoted:
            parts.append(text[start:at].strip())
            start = at + 1
    if text.strip():
        parts.append(text[start:].strip())
    return parts


_libraries: dict[str, Any] = {}
_shapes: dict[str, list[TensorRef]] = {}


def _register(op: Op) -> Any:
    """Defines `op` from its recorded schema, its results shaped as recorded."""
    if "(" not in op.schema or op.name.startswith("aten::"):
        raise UnknownOpError(f"{op.name} is unknown to torch {torch.__version__}")
    results = list(tensors(list(op.outputs)))
    key = "_".join(
        (
            re.sub(r"\W", "_", op.schema.split("(")[0]),
            *("x".join(map(str, (r.dtype, *r.shape))) for r in results),
        )
    )
    key = re.sub(r"\W", "_", key)
    signature = op.schema[op.schema.index("(") :]
    if key not in _shapes:
        # A namespace can be defined once a process.
        library = _libraries.get(OPAQUE) or torch.library.Library(OPAQUE, "DEF")
        _libraries[OPAQUE] = library
        try:
            library.define(key + signature)
        except RuntimeError as error:
            raise UnknownOpError(f"{op.name}: its schema cannot be registered ({error})") from error
        _shapes[key] = results
        torch.library.register_fake(f"{OPAQUE}::{key}", _fake(key, op), lib=library)
    return getattr(getattr(torch.ops, OPAQUE), key).default


def _fake(key: str, op: Op) -> Callable[..., Any]:
    returns_alias = "!" in op.schema.rpartition("->")[2]
    as_list = len(op.outputs) == 1 and isinstance(op.outputs[0], list)

    def fake(*args: Any, **kwargs: Any) -> Any:
        if returns_alias:
            return next(a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor))
        made = [
            torch.empty_strided(
                ref.shape,
                ref.strides if ref.strides is not None else contiguous(ref.shape),
                dtype=dtype_of(ref.dtype),
                device=ref.device,
            )
            for ref in _shapes[key]
        ]
        if as_list:
            return made
        return None if not made else made[0] if len(made) == 1 else tuple(made)

    return fake


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor of `shape`, in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
