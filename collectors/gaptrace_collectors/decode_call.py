"""Reading one module call: does it feed one new token per sequence, and how many sequences?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Call:
    """What one call feeds: `sequences` times `length` tokens, found under `where`."""

    sequences: int
    length: int
    where: str

    @property
    def is_decode(self) -> bool:
        """One new token per sequence."""
        return self.length == 1


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
    return next(iter(whole or tensors), None)


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
        return Call(shape[0], shape[1], where) if len(shape) == 3 else None
    if tensor.dtype == torch.bool or len(shape) > 2:
        return None
    if len(shape) == 2:
        return Call(shape[0], shape[1], where)
    numel = tensor.numel()
    if len(shape) == 0 or numel == 1 or numel == last_numel:
        return Call(numel, 1, where)
    return Call(1, numel, where)
