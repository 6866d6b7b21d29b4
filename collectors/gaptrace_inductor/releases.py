"""What releases of Inductor decide differently about a decode step, and a way to decide as before.

The installed torch schedules, but the count that is asked for is that of the torch which recorded
the step and will compile it. Where one decision is known to have changed in between and can be
taken back, it is taken back, and the answer says so.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Release = tuple[int, int]


@dataclass(frozen=True)
class Change:
    """A decision that `since` made otherwise than all releases before it, and how to undo it."""

    since: Release
    before: str
    undo: Callable[[], contextlib.AbstractContextManager[Any]]


def release_of(version: str | None) -> Release | None:
    """Major and minor number of a version text, None where it has none."""
    found = re.match(r"(\d+)\.(\d+)", version or "")
    return (int(found[1]), int(found[2])) if found else None


def undone(used: str, recorded: str | None) -> tuple[Change, ...]:
    """The changes between the release that recorded and the later one that schedules."""
    now, then = release_of(used), release_of(recorded)
    if now is None or then is None:
        return ()
    return tuple(change for change in CHANGES if then < change.since <= now)


@contextlib.contextmanager
def deciding_as(recorded: str | None) -> Iterator[None]:
    """While open, the installed Inductor decides as the recording's release did, where known."""
    with contextlib.ExitStack() as stack:
        for change in undone(torch.__version__, recorded):
            stack.enter_context(change.undo())
        yield


@contextlib.contextmanager
def _outer_products_called() -> Iterator[None]:
    from torch._inductor import decomposition

    bmm = torch.ops.aten.bmm.default
    real = decomposition.decompositions[bmm]

    def as_before(left: torch.Tensor, right: torch.Tensor, *rest: Any, **more: Any) -> Any:
        if left.shape[2] == 1 and left.device.type != "cpu":
            return NotImplemented
        return real(left, right, *rest, **more)

    with contextlib.ExitStack() as stack:
        for table in (decomposition.decompositions, decomposition.select_decomp_table()):
            stack.enter_context(mock.patch.dict(table, {bmm: as_before}))
        yield


@contextlib.contextmanager
def _dot_products_called() -> Iterator[None]:
    from torch._inductor.kernel import bmm

    name = "_BMM_DOT_K_DECOMPOSE_THRESHOLD"
    with mock.patch.object(bmm, name, -1) if hasattr(bmm, name) else contextlib.nullcontext():
        yield


# Read in the sources of the three releases; counted on the models of `scored_models.py`.
CHANGES = (
    Change(
        (2, 12),
        "a batched product over one element (a rotary angle) is a library call",
        _outer_products_called,
    ),
    Change(
        (2, 13),
        "a batched product of short vectors is a library call",
        _dot_products_called,
    ),
)
