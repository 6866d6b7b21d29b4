"""What single calls cannot tell: whether a call continues the one before it, or packs sequences."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

from gaptrace_collectors.decode_call import Call, read_call, tokens_of
from gaptrace_collectors.tensors import named_arguments

if TYPE_CHECKING:
    from collections.abc import Callable

_BOUNDARIES = re.compile(r"cu_?seq_?lens?(_q)?|query_start_loc|q?o?_?indptr", re.IGNORECASE)
_POSITIONS = re.compile(r"position_?ids?|positions?|pos(_ids)?|input_pos", re.IGNORECASE)
_ROW_PER_SEQUENCE = re.compile(
    r"block_tables?|page_tables?|(context|seq|cache)_?(lens?|lengths?)|logits_indices",
    re.IGNORECASE,
)


class CallHistory:
    """The last call of one module; `read` judges the next one with it."""

    def __init__(self, signature: Callable[..., Any]) -> None:
        self._signature = signature
        self._tokens: torch.Tensor | None = None
        self._positions: torch.Tensor | None = None
        self._numel: int | None = None

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        """What the call feeds, read with the one before it; None if it has no tokens.

        Looks at the tokens themselves, so it waits for the device: only until the step is found.
        """
        passed = tokens_of(args, kwargs)
        call = read_call(args, kwargs, self._numel)
        if call is None or passed is None:
            return None
        tokens = passed[1].detach()
        named = _flat(named_arguments(self._signature, args, kwargs))
        packed = self._packed(call, tokens, named)
        if packed is not None:
            call = packed
        if call.length > 1 and not call.packed and self._continues(tokens):
            call = call._replace(grows=True)
        self._numel = tokens.numel() if tokens.dim() < 2 and call.length > 1 else None
        self._tokens = tokens.clone()
        return call

    def _continues(self, tokens: torch.Tensor) -> bool:
        """Whether this call repeats the last one's tokens with one more behind them."""
        last = self._tokens
        if last is None or last.dim() != tokens.dim() or tokens.dim() == 0:
            return False
        along = 0 if tokens.dim() == 1 else 1
        before, now = last.shape[along], tokens.shape[along]
        if before < 1 or last.dtype != tokens.dtype or last.device != tokens.device:
            return False
        older = tokens.narrow(along, 0, now - 1)
        if now == before + 1:
            return _same(older, last)
        if now != before or now < 2 or _same(tokens, last):
            return False
        return _same(older, last.narrow(along, 1, now - 1))  # a full context, moved on by one

    def _packed(self, call: Call, tokens: torch.Tensor, named: dict[str, Any]) -> Call | None:
        """The call as one of several sequences in a row; None where nothing says that it is."""
        total = tokens.numel()
        if call.embedded or total < 2 or (tokens.dim() == 2 and tokens.shape[0] != 1):
            return None
        positions, self._positions = self._positions, None
        for name, value in named.items():
            if not isinstance(value, torch.Tensor) or value.is_floating_point():
                continue
            if _BOUNDARIES.fullmatch(name) and value.dim() == 1 and value.numel() > 1:
                lengths = value.diff()
                used = int((lengths > 0).sum())
                steady = used > 1 and int(lengths.max()) == 1
                return _row(call, used if steady else 1, 1 if steady else total)
            if _ROW_PER_SEQUENCE.fullmatch(name) and value.dim() and value.shape[0] == total:
                return _row(call, total, 1)
        now = next(
            (
                value.detach().flatten()
                for name, value in named.items()
                if _POSITIONS.fullmatch(name)
                and isinstance(value, torch.Tensor)
                and value.numel() == total
            ),
            None,
        )
        if now is None:
            return None
        self._positions = now.clone()
        moved_on = positions is not None and _same(now, positions + 1)
        # Position 0 is a prompt's, or a warm-up's that feeds zeros.
        apart = not bool((now.diff() == 1).any()) and bool((now > 0).all())
        return _row(call, total, 1) if moved_on or apart else Call(1, total, call.where)


def _row(call: Call, sequences: int, length: int) -> Call:
    return Call(sequences, length, call.where, packed=True)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.device == b.device and bool(torch.equal(a, b))


def _flat(named: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, those in dictionaries too."""
    flat = dict(named)
    for value in named.values():
        if isinstance(value, dict):
            flat |= {str(key): item for key, item in value.items() if str(key) not in flat}
    return flat
