"""Reading one module call: does it feed one new token per sequence, and how many sequences?"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

# Where the tokens are, in the order of preference, when they are passed by name.
TOKEN_NAMES = (
    "decoder_input_ids",
    "input_ids",
    "inputs_embeds",
    "decoder_inputs_embeds",
    "tokens",
    "token",
    "token_ids",
    "ids",
    "idx",
    "input",
    "inputs",
    "x",
)


class Call(NamedTuple):
    """What one call feeds: `sequences` times `length` tokens, found under `where`.

    `embedded`: as embeddings. `packed`: the sequences lie behind each other in one row; then
    `sequences` is 1 and `length` all tokens, but for a decode call. `grows`: nothing is cached, so
    a call feeds every token so far and one of them is new.
    """

    sequences: int
    length: int
    where: str
    embedded: bool = False
    packed: bool = False
    grows: bool = False

    @property
    def is_decode(self) -> bool:
        """One new token per sequence."""
        return self.grows or self.length == 1

    def __str__(self) -> str:
        what = f"{self.sequences} x {self.length} tokens in {self.where}"
        if self.packed:
            return f"{what}, the sequences packed into one row"
        return f"{what}, all of them computed anew" if self.grows else what


def tokens_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, torch.Tensor] | None:
    """The tensor that carries the new tokens, and where it was passed; None if there is none."""
    for name in TOKEN_NAMES:
        value = kwargs.get(name)
        if isinstance(value, torch.Tensor):
            return name, value
    for n, value in enumerate(args):
        if isinstance(value, torch.Tensor):
            return f"argument {n}", value
    tensors = [(name, v) for name, v in kwargs.items() if isinstance(v, torch.Tensor)]
    whole = [item for item in tensors if not item[1].is_floating_point()]
    return next(iter(whole or tensors), None) or _inside(args, kwargs)


def _inside(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, torch.Tensor] | None:
    """Tokens in a batch that is passed as one object: a dictionary, a tuple."""
    for path, value in [*((f"argument {n}", v) for n, v in enumerate(args)), *kwargs.items()]:
        if isinstance(value, Mapping):
            named = {str(key): item for key, item in value.items()}
            found = tokens_of((), named) if named else None
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            found = tokens_of((), vars(value)) if hasattr(value, "__dict__") else None
        elif type(value) in (tuple, list):
            found = tokens_of(tuple(value), {})
        else:
            continue
        if found is not None:
            return f"{path}, {found[0]}", found[1]
    return None


def read_call(
    args: tuple[Any, ...], kwargs: dict[str, Any], last_numel: int | None = None
) -> Call | None:
    """What a call feeds, or None where it does not look like a language model's.

    Token ids are `[sequences, length]`, or `[n]`: one sequence of n tokens, unless the call before
    it (`last_numel`) fed n as well, which makes it n sequences of one. Embeddings are
    `[sequences, length, width]`.
    """
    passed = tokens_of(args, kwargs)
    if passed is None:
        return None
    where, tensor = passed
    shape = tuple(tensor.shape)
    if tensor.is_floating_point() or tensor.is_complex():
        return Call(shape[0], shape[1], where, embedded=True) if len(shape) == 3 else None
    if tensor.dtype == torch.bool or len(shape) > 2:
        return None
    if len(shape) == 2:
        return Call(shape[0], shape[1], where)
    numel = tensor.numel()
    if len(shape) == 0 or numel == 1 or numel == last_numel:
        return Call(numel, 1, where)
    return Call(1, numel, where)


def read_numbers(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
    """What a method is fed as plain numbers: a token, a list of them, or a list of such lists."""
    for where, value in [*((f"argument {n}", v) for n, v in enumerate(args)), *kwargs.items()]:
        if isinstance(value, int) and not isinstance(value, bool):
            return Call(1, 1, where)
        if type(value) in (tuple, list) and value:
            if all(isinstance(item, int) for item in value):
                return Call(1, len(value), where)
            rows = [item for item in value if type(item) in (tuple, list) and item]
            if len(rows) == len(value) and len({len(row) for row in rows}) == 1:
                return Call(len(rows), len(rows[0]), where)
    return None


class StepReader:
    """Reads the calls of a step that is found: each one a step, a prompt, or neither.

    `call` is the first decode call, `silent` says that the step's arguments do not carry tokens at
    all (it keeps them itself): then every call is a step like the first one.
    """

    def __init__(self, call: Call, *, silent: bool = False) -> None:
        self.call = call
        self._silent = silent
        self._longest = call.length
        self._usual: int | None = None

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int | None) -> Call | None:
        """What a call feeds; `rows`: the sequences of the steps before it, where known."""
        call = read_call(args, kwargs, last_numel=rows)
        if call is None:
            call = read_numbers(args, kwargs)
        if call is None:
            return self.call if self._silent else None
        if self.call.packed:
            return self._packed(call, kwargs)
        return self._grown(call) if self.call.grows else call

    def _packed(self, call: Call, kwargs: dict[str, Any]) -> Call:
        names = ("max_length_q", "max_seqlen_q")
        longest = next((kwargs[name] for name in names if isinstance(kwargs.get(name), int)), 1)
        self._usual = longest if self._usual is None else self._usual  # of the step that was found
        total = call.sequences * call.length
        steady = total == self.call.sequences and longest in (1, self._usual)
        return self.call if steady else Call(1, total, call.where, packed=True)

    def _grown(self, call: Call) -> Call:
        """One token longer than the last call, or as long where the context is full."""
        last, self._longest = self._longest, call.length
        return call._replace(grows=call.length in (last, last + 1))
