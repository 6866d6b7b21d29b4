"""The document of gaps: a table of those asked for, with cause and neighbours."""

from __future__ import annotations

from collections.abc import Iterator

from gaptrace import units
from gaptrace.document.blocks import Block, Document, Sentence, Text
from gaptrace.document.build import builder
from gaptrace.document.sections import GAPS, Context, build, section
from gaptrace.document.tables import figures, table, words
from gaptrace.knowledge.kernel_names import classify
from gaptrace.quantity import COUNT, NS, TRACED
from gaptrace.results.gaps import Gap, GapsResult
from gaptrace.vocabulary import CAUSES


@builder(GapsResult)
def gaps_document(result: GapsResult, context: Context) -> Document:
    """The gaps of a device, in the order of the result."""
    number = units.counted(len(result.gaps), "gap")
    device = f" of GPU {result.device}" if result.device is not None else ""
    return Document(
        kind=GAPS,
        title=result.source,
        answer=Sentence((f"{number}{device}, times as profiled.",), "answer"),
        identity=(),
        sections=build(GAPS, result, context),
        result=result,
        detail=context.detail,
    )


@section(GAPS, "gaps", "Gaps", brief=True)
def gap_table(result: GapsResult, context: Context) -> Iterator[Block]:
    """One row a gap: how long, in which step, why, and the GPU ops on both sides."""
    del context
    yield table(
        "gaps",
        "",
        result.gaps,
        (
            figures("gap", NS, lambda gap: gap.dur_ns, TRACED, term="gap"),
            figures("step", COUNT, lambda gap: gap.step if gap.step >= 0 else None),
            words("cause", lambda gap: _cause(gap, result.withheld), term="cause", look="cause"),
            words("after", lambda gap: _op(gap.before)),
            words("before", lambda gap: _op(gap.after)),
        ),
        shown=len(result.gaps),
        notes=() if result.withheld is None else (f"causes are withheld: {result.withheld}",),
    )


def _op(name: str) -> Text:
    return Text(classify(name).short, "name", full=name)


def _cause(gap: Gap, withheld: str | None) -> Text:
    """The cause of most of a gap, and how many more it has."""
    if withheld is not None:
        return Text("withheld", term="withheld")
    parts = [key for key in CAUSES if getattr(gap, f"{key}_ns")]
    largest = CAUSES[gap.cause]
    more = f" +{len(parts) - 1}" if len(parts) > 1 else ""
    return Text(f"{largest.label}{more}", term=largest.term, key=largest.id)
