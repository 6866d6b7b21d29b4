"""The document of gaps: a table of those asked for, with cause and neighbours."""

from __future__ import annotations

from collections.abc import Iterator

from gaptrace.document import tables as t
from gaptrace.document.blocks import Block, Document, Table
from gaptrace.document.build import builder
from gaptrace.document.findings import op
from gaptrace.document.sections import GAPS, Context, section, whole
from gaptrace.document.steps import (
    NO_FRAMES,
    called_from,
    cause_name,
    causes,
    host_did,
    withheld,
    work_name,
)
from gaptrace.quantity import SHARE, TRACED
from gaptrace.results.gaps import Gap, GapsResult, HostWork
from gaptrace.units import counted
from gaptrace.vocabulary import CAUSES


@builder(GapsResult)
def gaps_document(result: GapsResult, context: Context) -> Document:
    """The gaps of a device, in the order of the result."""
    device = f" of GPU {result.device}" if result.device is not None else ""
    answer = f"{counted(len(result.gaps), 'gap')}{device}, times as profiled."
    return whole(GAPS, result, context, result.source, (answer,))


@section(GAPS, "gaps", "Gaps", brief=True)
def gap_table(result: GapsResult, context: Context) -> Iterator[Block]:
    """One row a gap: how long, in which step, why, and the GPU ops on both sides."""
    columns = (
        t.times("gap", "dur_ns", TRACED, "gap"),
        t.counts("step", lambda gap: gap.step if gap.step >= 0 else None),
        causes("cause", _times, result.withheld or ""),
        *host_did(),
        t.words("after", lambda gap: op(gap.before)),
        t.words("before", lambda gap: op(gap.after)),
    )
    notes = withheld(result.withheld or "")
    if result.gaps and not result.frames and any(gap.host for gap in result.gaps):
        notes = (*notes, NO_FRAMES)
    yield t.table("gaps", "", result.gaps, columns, shown=t.ALL, notes=notes)


def host_table(host: tuple[HostWork, ...], *, frames: bool) -> Table:
    """Everything that the launching thread did in one gap, the largest part first."""
    columns = (
        t.words("cause", lambda w: cause_name(w.cause), "cause", "cause"),
        t.words("the host was in", work_name, "host-work"),
        t.words("called from", called_from, "host-work"),
        t.times("time", "ns", TRACED),
        t.figures("of the gap", SHARE, "share", TRACED, "host-work"),
    )
    notes = () if frames else (NO_FRAMES,)
    return t.table("gap-host", "what the host did in the gap", host, columns, notes=notes)


def _times(gap: Gap) -> dict[str, int]:
    return {key: getattr(gap, f"{key}_ns") for key in CAUSES}
