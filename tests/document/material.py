"""Results to make documents of: recorded samples, and samples changed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gaptrace.analysis import analyze
from gaptrace.cli.explain import lookup
from gaptrace.document.answers import plain
from gaptrace.document.blocks import Block, Detail, Document, Table, Text, blocks_of
from gaptrace.document.build import document
from gaptrace.document.sections import Context
from gaptrace.errors import OptionError
from gaptrace.quantity import AT_MOST, UNPROFILED, Quantity
from gaptrace.reading.loading import load
from gaptrace.results.analysis import AnalysisResult, Quality, Reason
from gaptrace.results.run import ModeRow, RunCell, RunResult

SAMPLES = Path(__file__).parents[2] / "sample_traces"
BRIEF, FULL = Context(Detail.BRIEF), Context(Detail.FULL)


@cache
def sample(mode: str = "eager") -> AnalysisResult:
    """A recorded decode loop: `eager`, `compiled` or `graph`."""
    return analyze(load(SAMPLES / f"small_decoder_{mode}.json.gz")).result


def explained(label: str) -> bool:
    """Whether `gaptrace explain LABEL` knows what a label of a report is."""
    try:
        lookup(label)
    except OptionError:
        return False
    return True


def withheld(result: AnalysisResult, why: str, *names: str, **fields: Any) -> AnalysisResult:
    """The result with figures withheld for a reason."""
    reason = Reason("a_reason", "limited", why, withheld=names)
    return replace(result, quality=Quality("limited", (reason,)), **fields)


def unprofiled(result: AnalysisResult, step_ns: int, idle_ns: int, host_ns: int) -> AnalysisResult:
    """The result as if the run had timed the step without the profiler."""
    head = replace(
        result.headline, basis=UNPROFILED, step_ns=step_ns, token_ns=step_ns, idle_ns=idle_ns,
        token_idle_ns=idle_ns, idle_share=0.5, idle_basis=UNPROFILED, tokens_per_s=500.0,
    )  # fmt: skip
    limits = replace(
        result.ceilings, host_dispatch_ns=host_ns, host_dispatch_basis=UNPROFILED,
        host_dispatch_bound=AT_MOST, host_dispatch_source="unprofiled step, its upper bound",
    )  # fmt: skip
    rate = replace(result.rate, source="unprofiled", dilation=1.5, unprofiled_step_ns=step_ns)
    return replace(result, headline=head, ceilings=limits, rate=rate)


def row(mode: str, step_ns: int | None, **fields: Any) -> ModeRow:
    """One mode of a run by hand."""
    own: dict[str, Any] = {
        "status": "ok", "reason": "", "repeats": 1, "basis": UNPROFILED, "spread": None,
        "tokens_per_s": None if step_ns is None else 1e9 / step_ns, "idle_share": None,
        "idle_basis": UNPROFILED, "kernels": 10, "launches": 10, "host_dispatch_ns": None,
        "host_bound": "exact", "host_basis": UNPROFILED, "binding": None, "paced_by": None,
        "verdict": "ok", "finding": None, "path": f"runs/x/{mode}/1", **fields,
    }  # fmt: skip
    return ModeRow(mode=mode, step_ns=step_ns, **own)


def run(*rows: ModeRow, **fields: Any) -> RunResult:
    """A run of these modes; those that were recorded share one analysis."""
    cells = tuple(
        RunCell(r.mode, 1, r.status, r.reason or None, None if r.step_ns is None else sample(),
                str(r.path))
        for r in rows
    )  # fmt: skip
    own: dict[str, Any] = {
        "startup": {}, "autotuning": None, "missing": (), "seam_prices": (), "path": "runs/x",
        "fastest": next((r.mode for r in rows if r.fastest), None), **fields,
    }  # fmt: skip
    return RunResult(name="decoder", cells=cells, modes=rows, **own)


def section(result: Any, id_: str, context: Context = FULL) -> tuple[Block, ...]:
    """The blocks of one section of the document of a result; none where it is left out."""
    found = document(result, context)
    return next((s.blocks for s in found.sections if s.id == f"{context.prefix}{id_}"), ())


def table(result: Any, id_: str, number: int = 0) -> Table:
    """A table of one section."""
    held = [getattr(block, "table", None) or block for block in section(result, id_)]
    return [block for block in held if isinstance(block, Table)][number]


def column(found: Table, label: str, basis: str | None = None) -> list[Any]:
    """The cells of a column, by its label and basis."""
    (place,) = [
        i
        for i, own in enumerate(found.columns)
        if own.label == label and basis in (None, own.basis)
    ]
    return [r.cells[place] for r in found.rows]


def values(cells: list[Any]) -> list[Any]:
    """What cells hold: the values of quantities, the words of texts."""
    return [
        c.value if isinstance(c, Quantity) else c.text if isinstance(c, Text) else c for c in cells
    ]


def strings(value: Any) -> Iterator[str]:
    """Every text in a block, a document or a result."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)
    elif hasattr(value, "__struct_fields__"):
        for name in value.__struct_fields__:
            yield from strings(getattr(value, name))


def said(found: Document) -> str:
    """All words of a document on one line, quantities printed."""
    lines = []
    for block in blocks_of(found):
        facts = getattr(block, "facts", ())
        lines += [
            plain(parts) for parts in (getattr(block, "parts", ()), *[f.parts for f in facts])
        ]
        lines.extend(strings(block))
    return " ".join(" ".join(lines).split())
