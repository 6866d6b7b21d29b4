"""The document of one recording: what each section says, and what it says of what is withheld."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from gaptrace.document.answers import analysis_answer, plain
from gaptrace.document.blocks import Bars, Facts, Findings, Note, Sentence, Table
from gaptrace.document.build import document
from gaptrace.quantity import NS, TRACED, UNPROFILED, Quantity
from gaptrace.render import formats
from gaptrace.render.formats import Style
from gaptrace.results.analysis import (
    TOKENS_ASSUMED,
    AnalysisResult,
    HostPart,
    HostParts,
    KernelRow,
    Phase,
    Piecewise,
    Power,
    Quality,
    Reason,
    SeamKind,
    StepFigures,
    WhatIf,
)
from gaptrace.results.manifest import Compile, GraphBreak, Inductor, Recompile
from gaptrace.units import text
from gaptrace.vocabulary import CAUSES, HOST_CLASSES
from tests.document.material import (
    BRIEF,
    FULL,
    column,
    said,
    sample,
    section,
    table,
    unprofiled,
    values,
    withheld,
)
from tests.render.material import without_gpu

NOTHING = StepFigures()


def answer(result: AnalysisResult) -> str:
    return plain(analysis_answer(result))


def whole(result: AnalysisResult) -> AnalysisResult:
    """The result as if no step had been found."""
    empty = replace(result.steps, median=NOTHING, p5=NOTHING, p95=NOTHING, rule=None)
    head = replace(result.headline, step_ns=None, tokens_per_s=None, token_ns=None)
    return replace(result, steps=empty, headline=head)


# ---------------------------------------------------------------- answer


def test_the_answer_is_rate_step_idle_and_largest_cause() -> None:
    assert answer(sample("eager")) == (
        "Decode: 211 tok/s, 4.74 ms per step (as profiled). The GPU idles 91 % of it; largest "
        "cause: op dispatch, up to 2.16 ms per token recoverable."
    )


def test_what_no_host_can_win_is_not_called_recoverable() -> None:
    assert answer(sample("graph")).endswith("between graph nodes, 57.3 µs per token.")


def test_the_unprofiled_step_is_not_called_profiled() -> None:
    found = answer(unprofiled(sample("eager"), 2_000_000, 1_000_000, 900_000))
    assert found.startswith("Decode: 500 tok/s, 2.00 ms per step. The GPU idles 50 % of it;")


def test_idle_as_traced_beside_an_unprofiled_step_says_so() -> None:
    result = unprofiled(sample("eager"), 2_000_000, 1_000_000, 900_000)
    head = replace(result.headline, idle_basis=TRACED)
    assert "50 % of it (as profiled);" in answer(replace(result, headline=head))


def test_idle_that_is_withheld_is_named() -> None:
    head = replace(sample().headline, idle_share=None)
    assert answer(replace(sample(), headline=head)).endswith("; idle time is withheld, see below.")


@pytest.mark.parametrize(
    ("ends", "words"),
    [((100, 400), "100 to 400 tok/s"), ((100, None), "≥ 100 tok/s"), ((None, 400), "≤ 400 tok/s")],
)
def test_under_speculation_the_rate_is_a_range(ends: Any, words: str) -> None:
    result = sample()
    head = replace(result.headline, tokens_per_s=None)
    steps = replace(result.steps, tokens_per_step=None)
    rate = replace(result.rate, tokens_per_s=None, tokens_per_s_range=ends)
    found = replace(result, headline=head, steps=steps, rate=rate)
    assert answer(found).startswith(f"Decode: {words}, ")
    assert "per step recoverable" in answer(found)


@pytest.mark.parametrize("kind", ["inference", "training"])
def test_what_makes_no_tokens_is_not_called_decode(kind: str) -> None:
    result = sample()
    head = replace(result.headline, tokens_per_s=None)
    steps = replace(result.steps, kind=kind, tokens_per_step=None)
    rate = replace(result.rate, tokens_per_s=None, steps_per_s=18.2)
    found = answer(replace(result, headline=head, steps=steps, rate=rate))
    assert found.startswith(f"{kind.capitalize()}: 18.2 steps/s, ")
    assert "ecode" not in found
    assert "token" not in found


def test_without_steps_the_whole_recording_speaks() -> None:
    assert answer(whole(sample())) == (
        "No step could be measured; over the whole recording of 37.8 ms the GPU was idle 91 % of "
        "the time."
    )


def test_without_gpu_work_there_is_nothing_and_damage_is_named() -> None:
    steps = replace(sample().steps, device=None)
    bare = replace(sample(), steps=steps, devices=(), quality=Quality("refused"))
    assert answer(bare) == "No GPU work was recorded, so there is nothing to measure."
    cut = Reason("truncated", "limited", "the file ends in the middle")
    damaged = replace(bare, quality=Quality("refused", (cut,)))
    assert answer(damaged).endswith("of this file: the file ends in the middle.")


# ---------------------------------------------------------------- trust


def test_an_unusable_trace_is_called_unusable_and_told_what_to_do() -> None:
    found = said(document(without_gpu().result, FULL))
    assert "unusable" in found
    assert "refused" not in found.replace("'refused'", "").split("unusable")[0].split()
    assert "ProfilerActivity.CUDA" in found
    assert "--step REGEX" in said(document(whole(sample()), FULL))


def test_every_reason_says_what_it_withholds() -> None:
    result = withheld(sample(), "clocks differ", "causes", "host_dispatch")
    (note,) = [b for b in section(result, "trust") if isinstance(b, Note) and b.withheld]
    assert note.parts == ("clocks differ",)
    assert note.level == "limited"
    assert note.withheld == ("causes", "host dispatch")


def test_notes_wait_for_the_full_form() -> None:
    notes = tuple(Reason(f"n{i}", "note", f"note {i}", count=2) for i in range(3))
    result = replace(sample(), quality=Quality("ok", notes))
    brief = [b for b in section(result, "trust", BRIEF) if isinstance(b, Note)]
    assert brief == []
    assert "3 more notes on this trace" in said(document(result, BRIEF))
    full = [plain(b.parts) for b in section(result, "trust") if isinstance(b, Note)]
    assert full[:3] == ["note 0 (2)", "note 1 (2)", "note 2 (2)"]


# ---------------------------------------------------------------- time


def test_bars_have_one_basis_each_and_traced_parts_no_total() -> None:
    result = unprofiled(sample("eager"), 2_000_000, 1_000_000, 900_000)
    (bars,) = [b for b in section(result, "token") if isinstance(b, Bars)]
    bases = [{segment.amount.basis for segment in bar.segments} for bar in bars.bars]
    assert bases == [{UNPROFILED}, {TRACED}, {TRACED}]
    assert bars.bars[0].total == Quantity(2_000_000, NS, UNPROFILED)
    assert [bar.total for bar in bars.bars[1:]] == [None, None]
    order = [s.key for s in bars.bars[1].segments[1:]]
    assert order == [key for key in CAUSES if key in order]


def test_withheld_causes_leave_idle_whole() -> None:
    token = replace(sample().per_token, idle_by_cause_ns=dict.fromkeys(CAUSES))
    (bars,) = [
        b for b in section(replace(sample(), per_token=token), "token") if isinstance(b, Bars)
    ]
    assert [s.label for s in bars.bars[0].segments] == ["GPU busy", "GPU idle, causes withheld"]


def test_the_table_beside_the_bars_has_their_numbers() -> None:
    found = table(sample(), "token")
    token = sample().per_token
    labels = {word.label: key for key, word in HOST_CLASSES.items()}
    for cell, gpu, host in zip(
        column(found, "part"), column(found, "GPU"), column(found, "host"), strict=True
    ):
        key = labels.get(cell.text)
        if key is None:
            assert (cell.key, gpu.value, host) == ("busy", token.busy_ns, None)
            continue
        assert (gpu.value if gpu else None) == (token.idle_by_cause_ns.get(key) or None)
        assert (host.value if host else None) == (token.host_time_ns.get(key) or None)


def test_a_row_of_the_step_states_its_unit_and_basis() -> None:
    result = unprofiled(sample("eager"), 2_000_000, 1_000_000, 900_000)
    found = table(result, "step")
    rows: dict[tuple[str, str], Any] = {(row.key, row.basis): row for row in found.rows}
    assert rows["period_ns", UNPROFILED].cells[1].value == 2_000_000
    assert rows["period_ns", TRACED].cells[1].value == sample().steps.median.period_ns
    assert text(rows["host_dispatch_ns", UNPROFILED].cells[1]) == "≤ 900 µs"
    assert len(found.columns) == 4
    for row in rows.values():
        for cell in row.cells[1:]:
            assert cell is None or (cell.unit, cell.basis) == (row.unit, row.basis)


def test_per_token_stands_beside_the_step_where_they_differ() -> None:
    result = sample()
    batch = replace(
        result,
        steps=replace(result.steps, tokens_per_step=8),
        per_token=replace(result.per_token, kernels=15.625),
    )
    found = table(batch, "step")
    assert found.columns[-1].label == "per token"
    (kernels,) = [row for row in found.rows if row.key == "kernels"]
    assert values(list(kernels.cells[1:])) == [125, 125, 125, 15.625]


def test_a_withheld_figure_of_the_step_has_its_reason() -> None:
    gone = {name: replace(getattr(sample().steps, name), host_dispatch_ns=None)
            for name in ("median", "p5", "p95")}  # fmt: skip
    steps = replace(sample().steps, **gone)
    limits = replace(sample().ceilings, host_dispatch_ns=None, launch_tokens_per_s=None)
    result = withheld(sample(), "orphans", "host_dispatch", steps=steps, ceilings=limits)
    assert table(result, "step").notes == ("host dispatch is withheld: orphans",)
    assert "host_dispatch_ns" not in [row.key for row in table(result, "step").rows]
    assert "withheld with the host dispatch time: orphans" in said(document(result, FULL))


# ---------------------------------------------------------------- ceilings


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"weight_bytes_source": None}, "unknown: no shapes were recorded"),
        ({"weight_bytes_source": "shapes cover only part"}, "unknown: shapes cover only part (--"),
        ({"weight_bytes": 10}, "unknown: no peak bandwidth for this GPU (--peak-bandwidth)"),
    ],
)
def test_an_unknown_bandwidth_ceiling_says_what_to_give(fields: dict[str, Any], why: str) -> None:
    own = {"weight_bytes": None, "bandwidth_tokens_per_s": None, "binding": None, **fields}
    result = replace(sample(), ceilings=replace(sample().ceilings, **own))
    facts = next(b for b in section(result, "ceilings") if isinstance(b, Facts))
    (found,) = [f for f in facts.facts if f.label.text == "bandwidth ceiling"]
    assert plain(found.parts).startswith(why)


@pytest.mark.parametrize(
    ("binding", "paced", "words"),
    [
        ("launch", "host", "Limited by: the launch ceiling; the measured rate is 99.9 % of it;"),
        ("launch", "gpu", "Lower ceiling: the launch ceiling; the measured rate is 99.9 % of it, "
                          "but the GPU's own work paces this step (GPU busy 9.3 %);"),
        ("bandwidth", "host", "but the host paces this step (GPU busy 9.3 %)"),
    ],
)  # fmt: skip
def test_a_lower_ceiling_that_does_not_pace_says_what_does(
    binding: str, paced: str, words: str
) -> None:
    limits = replace(sample().ceilings, binding=binding, paced_by=paced, busy_share=0.093)
    lead = next(
        b
        for b in section(replace(sample(), ceilings=limits), "ceilings")
        if isinstance(b, Sentence)
    )
    assert words in plain(lead.parts)
    assert plain(lead.parts).endswith("crossover at 739 bits per weight (now 16.0 bits).")


def test_what_limits_a_changed_step() -> None:
    def item(binding: str | None, paced: str, **more: Any) -> WhatIf:
        return WhatIf("x", f"{binding} {paced}", 1_000, 10.0, binding, paced, **more)

    changed = (
        item("launch", "host"), item("launch", "gpu"), item("bandwidth", "host"),
        item(None, "host"), item("launch", "host", changes=False),
    )  # fmt: skip
    found = table(replace(sample(), what_if=changed, square={}), "modes")
    assert column(found, "limited by") == [
        "launch", "launch; the GPU paces", "bandwidth; the host paces", None, "no change",
    ]  # fmt: skip


# ---------------------------------------------------------------- findings


def test_the_short_form_shows_three_and_counts_the_rest() -> None:
    (brief,) = section(sample(), "findings", BRIEF)
    (full,) = section(sample(), "findings")
    assert isinstance(brief, Findings)
    assert isinstance(full, Findings)

    def ids(items: Any) -> list[str]:
        return [name for item in items for name in (item.id, *ids(item.parts))]

    assert sorted(ids(full.items)) == sorted(f.id for f in sample().findings)
    assert len(ids(brief.items)) == 3
    assert brief.left == len(sample().findings) - 3
    assert brief.items[0].evidence is None
    assert full.items[0].what_to_try
    evidence = full.items[0].evidence
    assert isinstance(evidence, Table)
    first = sample().findings[0].evidence[0]
    assert column(evidence, "for")[0] == Quantity(first.end_ns - first.start_ns, NS, TRACED)
    assert evidence.rows[0].key == first.target


def test_nothing_found_is_said() -> None:
    assert "No rule found anything" in said(document(replace(sample(), findings=()), FULL))


# ---------------------------------------------------------------- other sections


def test_kernels_say_class_share_and_why_a_roofline_is_withheld() -> None:
    result = sample()
    odd = replace(result.kernels.rows[0], roofline_share=None, roofline_note="a reducer")
    found = replace(result, kernels=replace(result.kernels, rows=(odd,), overlap_ns=5_000))
    lead = plain(next(b.parts for b in section(found, "kernels") if isinstance(b, Sentence)))
    assert lead == (
        "1 kind of GPU op; the largest class is GEMM with 53 % of the time. Streams overlap: times "
        "sum to 5.00 µs per token more than busy."
    )
    assert table(found, "kernels").notes == (f"of roofline withheld for {odd.short}: a reducer",)
    assert column(table(found, "kernels"), "time per token")[0].basis == TRACED


def test_every_kernel_is_there() -> None:
    found = table(sample(), "kernels")
    assert isinstance(sample().kernels.rows[0], KernelRow)
    assert [cell.full for cell in column(found, "name")] == [r.name for r in sample().kernels.rows]


def test_pieces_of_a_lone_trace() -> None:
    kind = SeamKind(("aten::mm", "aten::add"), 16, 4, 50_000, 9_000, None, 952_000, 59_500)
    found = Piecewise(8, "warm-up steps", 17, None, 16, 16, 64, 64, 952_000, 1, 1, 0.3, 59_500,
                      (kind,))  # fmt: skip
    result = replace(sample(), piecewise=found)
    lead = plain(next(b.parts for b in section(result, "pieces") if isinstance(b, Sentence)))
    assert "16 gaps between pieces, 16 of them launch work (64 kernels, 64 launch calls)" in lead
    assert "as profiled, 952 µs per step (30 %), a mean of 59.5 µs each" in lead
    assert lead.endswith("No decode step was counted: read from warm-up steps.")
    rows = table(result, "pieces")
    assert values(column(rows, "work")) == ["mm, add"]
    assert values(column(rows, "idle")) == [59_500]
    assert "host" not in [c.label for c in rows.columns]


def test_phases_stand_side_by_side() -> None:
    def phase(name: str, period: int) -> Phase:
        return Phase(name, 2, 5, 4, 2, period, 10, 20, 3, 3, 0, 0, {"sync": 15, "python": 5}, 100)

    result = replace(sample(), phases=(phase("decode", 30), phase("prefill", 90)))
    found = table(result, "phases")
    assert values(column(found, "phase")) == ["decode", "prefill"]
    assert values(column(found, "step")) == [30, 90]
    assert values(column(found, "largest cause")) == ["waiting in a sync +1"] * 2
    assert section(replace(sample(), phases=(phase("decode", 30),)), "phases") == ()


def test_steps_without_tokens_are_drawn_per_step() -> None:
    result = sample()
    none = dict.fromkeys(result.per_token.host_time_ns)
    token = replace(result.per_token, busy_ns=None, host_time_ns=none)
    steps = replace(result.steps, tokens_per_step=None, batch=2, phase="decode")
    own = Phase("decode", 2, 5, 4, None, 30, 10, 20, 3, 3, 0, 0, {"sync": 20}, 100)
    changed = replace(result, per_token=token, steps=steps, phases=(own,))
    (bars,) = [b for b in section(changed, "token") if isinstance(b, Bars)]
    assert bars.title == "Where a step's time goes"
    assert [s.amount.value for s in bars.bars[0].segments] == [10, 20]


def test_engine_parts_and_idle_between_steps() -> None:
    parts = HostParts("vLLM", "labels", 4, 100, (HostPart("schedule", 12, 48),), 7_000)
    result = replace(sample(), host_parts=parts)
    assert column(table(result, "parts"), "part") == ["schedule"]
    assert values(column(table(result, "parts"), "median")) == [12]
    assert "GPU idle between steps" in said(document(result, FULL))


def test_what_the_recorder_saw_of_compiling() -> None:
    seen = Compile(
        seconds=1.5, unique_graphs=3, recompile_count=2, recompiles_while_measured=1,
        recompiles=(Recompile(4, "measured", "forward", None, "x == 3"),),
        graph_breaks=(GraphBreak("print", "a.py:3", 2),),
        inductor=Inductor(generated_kernels=21),
    )  # fmt: skip
    result = replace(sample(), compilation=seen)
    facts = [b for b in section(result, "compile") if isinstance(b, Facts)][-1]
    assert {f.label.text: plain(f.parts) for f in facts.facts} == {
        "recompiles": "2 in all, 1 while measured", "graphs": "3", "generated kernels": "21",
        "compile time": "1.50 s",
    }  # fmt: skip
    held = [b for b in section(result, "compile") if isinstance(b, Table)]
    assert column(held[-2], "guard that failed") == ["x == 3"]
    assert values(column(held[-1], "count")) == [2]


def test_power_in_watts_and_shares() -> None:
    result = replace(sample(), power=Power(350.0, 700.0, 1500, 1980, 55, 0.7, 9, 0.5))
    (facts,) = section(result, "power")
    assert isinstance(facts, Facts)
    assert plain(facts.facts[0].parts) == "350 W of 700 W (50 %)"
    assert plain(facts.facts[2].parts) == "1500 MHz of 1980 MHz"


def test_gaps_say_cause_or_why_not() -> None:
    found = table(sample(), "timeline")
    assert values(column(found, "")) == sorted(values(column(found, "")), reverse=True)
    hidden = tuple(replace(gap, cause_ns={}) for gap in sample().longest_gaps)
    closed = table(withheld(sample(), "skew", "causes", longest_gaps=hidden), "timeline")
    assert set(values(column(closed, "cause"))) == {"withheld"}
    assert "causes are withheld: skew" in closed.notes


def test_the_next_commands_can_be_pasted() -> None:
    result = replace(sample(), source=replace(sample().source, path="my runs/a.json"))
    (note,) = section(result, "next", BRIEF)
    assert isinstance(note, Note)
    assert note.commands == (
        "gaptrace analyze 'my runs/a.json' --full", "gaptrace gaps 'my runs/a.json'",
        f"gaptrace explain {result.findings[0].id}",
    )  # fmt: skip


# ---------------------------------------------------------------- the whole


@pytest.mark.parametrize("mode", ["eager", "compiled", "graph"])
@pytest.mark.parametrize("timed", [False, True])
def test_the_short_form_fits_one_screen(mode: str, timed: bool) -> None:
    found = sample(mode)
    found = replace(found, source=replace(found.source, path="trace.json"))
    if timed:
        found = unprofiled(found, 2_000_000, 1_000_000, 900_000)
    lines = formats.get("terminal").render(document(found, BRIEF), Style()).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    # The first finding is told, the others are named.
    (told,) = section(found, "findings", BRIEF)
    assert isinstance(told, Findings)
    assert [bool(item.text) for item in told.items] == [True, *[False] * (len(told.items) - 1)]


@pytest.mark.parametrize("mode", ["eager", "compiled", "graph"])
def test_the_short_form_is_a_part_of_the_full_one(mode: str) -> None:
    brief, full = document(sample(mode), BRIEF), document(sample(mode), FULL)
    ids = [s.id for s in full.sections]
    assert [s.id for s in brief.sections] == [
        i for i in ids if i in ("trust", "token", "findings", "next")
    ]
    assert len(ids) > 12
    assert brief.answer == full.answer


def test_ids_of_blocks_are_unique_and_carry_the_prefix() -> None:
    ids = [
        block.id
        for s in document(sample(), dataclasses.replace(FULL, prefix="m-")).sections
        for block in s.blocks
        if hasattr(block, "id")
    ]
    assert len(ids) == len(set(ids))
    assert all(i.startswith("m-") for i in ids)


def test_an_assumed_token_count_is_said_on_the_first_screen() -> None:
    result = sample()
    assumed = replace(result, steps=replace(result.steps, tokens_source=TOKENS_ASSUMED))
    known = replace(result, steps=replace(result.steps, tokens_source="run manifest"))
    words = ", assumed (--tokens-per-step)"
    assert words in said(document(assumed, BRIEF))
    assert words not in said(document(known, BRIEF))
