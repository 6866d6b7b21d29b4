"""What a comparison says: the answer, sentences, blocks, and both forms of the document."""

from __future__ import annotations

import dataclasses
import re

import pytest

from gaptrace.compare.compare import FORCE, CompareOptions
from gaptrace.compare.gates import parse_gate
from gaptrace.compare.recording import Recording, UsedKernel
from gaptrace.compare.side import Side
from gaptrace.compare.work import subject
from gaptrace.document.blocks import Bars, Detail, Document, Note, Section, Table, Text, blocks_of
from gaptrace.document.build import document
from gaptrace.document.comparison_words import headline, signed, text
from gaptrace.document.sections import Context
from gaptrace.quantity import RANGE, SHARE, TRACED, UNPROFILED, Quantity
from gaptrace.render import formats
from gaptrace.render.formats import Style
from gaptrace.results.comparison import ComparisonResult, Pair
from gaptrace.runs.compared import compare, compared
from tests.compare.recordings import recording

STEADY = [1_000_000 + offset for offset in range(6)]
SLOWER = [value + 200_000 for value in STEADY]


def both(left: Recording, right: Recording) -> ComparisonResult:
    return compare([Side("a", "x/a", (left,)), Side("b", "x/b", (right,))])


def pair(left: Recording, right: Recording) -> Pair:
    return both(left, right).pairs[0]


def told(found: ComparisonResult, detail: Detail = Detail.FULL) -> Document:
    return document(found, Context(detail))


def section(whole: Document, key: str) -> Section:
    return next(item for item in whole.sections if item.id == key)


def table(whole: Document, key: str) -> Table:
    return next(b for b in blocks_of(whole) if isinstance(b, Table) and b.id == key)


def bars(whole: Document) -> Bars:
    return next(block for block in blocks_of(whole) if isinstance(block, Bars))


def copies(count: int, each_ns: int) -> UsedKernel:
    return UsedKernel("triton_poi_fused_copy__1", "", "copy", count, count * each_ns, each_ns)


def test_signs_and_units() -> None:
    assert signed(-1_500) == "−1.50 µs"
    assert signed(12_000_000) == "+12.0 ms"
    assert signed(0) == "0 ns"
    assert signed(0.05, SHARE) == "+5.0 %"
    assert signed(-0.0004, SHARE) == "> −0.1 %"
    assert signed(0.0004, SHARE) == "< +0.1 %"
    assert signed(-0.083, "points") == "−8.30 points"
    assert signed(3, "count") == "+3"
    assert text(2e9, "bytes") == "2.00 GB"
    assert text(97.2, "tok/s") == "97.2 tok/s"


def test_a_slower_step_is_said_with_its_parts() -> None:
    found = pair(recording(STEADY, busy=300_000), recording(SLOWER, busy=300_000))
    assert found.sentence == (
        "Worse: 1.00 ms → 1.20 ms per step, +20 %, beyond step noise; run-to-run not measured; "
        "+200 µs idle: op dispatch."
    )


def test_a_large_factor_is_said_as_one() -> None:
    line = pair(recording(STEADY), recording([value // 4 for value in STEADY])).sentence
    assert line.startswith("Better: ")
    assert "4.00x faster, beyond step noise" in line


def test_the_same_and_the_noisy_are_not_called_a_change() -> None:
    same = pair(recording(STEADY), recording(STEADY)).sentence
    assert same == "No change beyond noise: 1.00 ms → 1.00 ms per step, the same."
    rough = [900_000, 1_100_000, 1_300_000, 800_000, 1_000_500, 1_050_000]
    line = pair(recording(STEADY), recording(rough)).sentence
    assert line.startswith("No change beyond noise: ")


def test_no_steps_is_said() -> None:
    line = pair(recording(STEADY), recording(STEADY, withheld=frozenset({"per_token"}))).sentence
    expected = "Not judged: no step time to compare, unknown or withheld on the candidate."
    assert line == expected


def test_rates_are_the_inverse_of_the_step_time_shown() -> None:
    # Of an even number of steps the lower middle one stands for all; so it does for the rate.
    left = recording([100, 200, 300, 400], tokens=2)
    right = recording([100, 200, 310, 400, 500, 600], tokens=2)
    found = pair(left, right)
    step, rate = found.metric("step_time"), found.metric("tokens_per_s")
    for side in ("baseline", "candidate"):
        assert getattr(rate, side).value == 2e9 / getattr(step, side).value
    assert step.ratio is not None
    assert rate.ratio == pytest.approx(1 / (1 + step.ratio) - 1)


def test_busy_time_lost_while_kernels_fell_is_said_with_class_and_kernels() -> None:
    before = recording(STEADY, busy=300_000, kernels=10, table=(copies(6, 100),))
    after = recording(STEADY, busy=300_000, kernels=5, table=(copies(12, 4_000),))
    after.steps["busy_copy_ns"][:] = 7_900
    after.steps["idle_dispatch_ns"][:] -= 7_900
    found = pair(
        dataclasses.replace(before, mode="eager"), dataclasses.replace(after, mode="compiled")
    )
    assert found.kernel_sentence == (
        "Compiling removed 50 % of the kernels (10 → 5), yet GPU busy time grew by 7.90 µs per "
        "token, on copy (+7.90 µs: triton_poi copy_ ×2)."
    )


def test_kernels_that_stay_and_busy_that_does_not_move() -> None:
    found = pair(recording(STEADY, busy=5), recording(STEADY, busy=5))
    assert found.kernel_sentence == (
        "The candidate left the number of kernels as it was; GPU busy time did not change "
        "beyond noise (0 %)."
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("eager", "compiled", "compiling"),
        ("eager", "graph", "capturing"),
        ("eager", "compiled-graph", "compiling and capturing"),
        ("compiled", "compiled-graph", "capturing"),
        ("graph", "compiled-graph", "compiling"),
        ("compiled", "eager", "the candidate"),
        ("compiled", "graph", "the candidate"),
        ("graph", "compiled", "the candidate"),
        ("as-is", "compiled", "the candidate"),
        ("eager", "eager", "the candidate"),
    ],
)
def test_what_was_done_is_named(before: str, after: str, expected: str) -> None:
    sides = [Side(mode, "", (recording(STEADY, mode=mode),)) for mode in (before, after)]
    assert subject(*sides) == expected


def test_a_row_states_its_unit_and_basis_and_every_number_of_it_has_them() -> None:
    left = recording(STEADY, busy=300_000, unprofiled_ns=900_000, peak_memory=10**9)
    right = recording(SLOWER, busy=310_000, unprofiled_ns=1_000_000, peak_memory=10**9)
    for detail in Detail:
        metrics = table(told(both(left, right), detail), "metrics")
        for row in metrics.rows:
            for column, cell in zip(metrics.columns, row.cells, strict=True):
                if isinstance(cell, Quantity) and cell.known:
                    own = column.unit is None
                    assert cell.unit == (row.unit if own else column.unit), row.key
                    assert cell.basis in ("", row.basis if own else column.basis), row.key
        by_key = {row.key: row for row in metrics.rows}
        assert by_key["step_time"].basis == UNPROFILED
        assert by_key["busy"].basis == TRACED
        assert by_key["kernels"].basis == ""


def test_the_interval_is_relative_to_the_baseline() -> None:
    moved = both(recording(STEADY), recording([value + 100_000 for value in STEADY]))
    metrics = table(told(moved), "metrics")
    place = [column.label for column in metrics.columns].index("95 % interval")
    cells = {row.key: row.cells[place] for row in metrics.rows}
    step = cells["step_time"]
    assert isinstance(step, Quantity)
    assert step.bound == RANGE
    assert (step.low, step.high) == (pytest.approx(0.1, abs=1e-4), pytest.approx(0.1, abs=1e-4))
    assert cells["kernels"] == "exact"


def test_a_comment_has_at_most_five_columns_and_the_verdict_first() -> None:
    whole = told(both(recording(STEADY), recording(SLOWER)), Detail.BRIEF)
    assert [c.label for c in table(whole, "metrics").columns] == [
        "metric", "base", "cand", "change", "verdict",
    ]  # fmt: skip
    assert all(len(block.columns) <= 5 for block in blocks_of(whole) if isinstance(block, Table))
    comment = formats.get("markdown").render(whole, Style())
    assert comment.splitlines()[2].startswith("### Worse: 1.00 ms → 1.20 ms per step")


@pytest.mark.parametrize("others", [[STEADY], [SLOWER], [STEADY, SLOWER], [SLOWER] * 9])
def test_the_title_has_a_status_and_at_most_25_words(others: list[list[int]]) -> None:
    sides = [Side("base/eager", "x", (recording(STEADY),))]
    sides += [Side(f"cand{i}/eager", "y", (recording(steps),)) for i, steps in enumerate(others)]
    line = headline(compare(sides))
    assert len(line.split()) <= 25, line
    assert line.split(":")[0].split(" in ")[0] in ("Worse", "Better", "No change beyond noise")


def test_of_several_pairs_the_worst_comes_first_and_gates_name_their_mode() -> None:
    faster = [value // 2 for value in STEADY]
    base = {mode: Side(f"base/{mode}", "x", (recording(STEADY, mode=mode),)) for mode in ("m", "n")}
    cand = {
        mode: Side(f"cand/{mode}", "y", (recording(steps, mode=mode),))
        for mode, steps in (("m", faster), ("n", SLOWER))
    }
    gates = [parse_gate("tokens_per_s:5%"), parse_gate("kernels:600")]
    found = compared([(base[mode], cand[mode]) for mode in base], gates=gates)
    assert headline(found) == (
        "Worse in 1 of 2 modes; n: 1.00 ms → 1.20 ms per step, +20 %; gate tokens_per_s:5% tripped."
    )
    whole = told(found, Detail.BRIEF)
    assert [part.title for part in whole.parts] == ["base/n → cand/n", "base/m → cand/m"]
    rows = table(whole, "gates").rows
    assert [row.cells[2] for row in rows] == ["n"]
    assert [block.parts for block in section(whole, "gates").blocks if isinstance(block, Note)] == [
        ("3 gates held",)
    ]
    assert len(table(told(found), "gates").rows) == 4


def test_unlike_runs_say_so_before_anything_else() -> None:
    sides = [Side(gpu, "x", (recording(STEADY, facts={"gpu": gpu}),)) for gpu in ("H200", "A100")]
    found = compare(sides, CompareOptions(unlike=FORCE))
    assert headline(found).startswith("Runs are not comparable (--force).")
    note = section(told(found, Detail.BRIEF), "doubt").blocks[0]
    assert isinstance(note, Note)
    assert note.level == "refused"
    assert "GPU: H200 against A100" in str(note.parts[1])


def test_the_bridge_is_drawn_from_one_step_to_the_other() -> None:
    drawn = bars(told(profiled_apart(400_000)))
    assert (drawn.kind, drawn.look) == ("bridge", "class")
    amounts = [sum(s.amount.value or 0 for s in bar.segments) for bar in drawn.bars]
    assert amounts[0] + sum(amounts[1:-1]) == amounts[-1] == 450_000
    assert [bar.hatched for bar in drawn.bars] == [False, True, False, False]
    assert drawn.bars[1].label == "idle: op dispatch (estimate)"
    assert any("profiling changed these steps by +1.00 ms" in note for note in drawn.notes)
    assert {bar.total for bar in drawn.bars[1:-1]} == {None}


def test_small_parts_of_a_bridge_share_a_bar() -> None:
    left, right = recording(STEADY, busy=300_000), recording(SLOWER, busy=300_000)
    right.steps["busy_copy_ns"][:] = 30
    right.steps["busy_other_ns"][:] = 40
    right.steps["idle_dispatch_ns"][:] -= 70
    drawn = bars(told(both(left, right)))
    assert drawn.bars[-2].label == "2 smaller parts"
    assert drawn.bars[-2].segments[0].amount.value == 70


def test_the_terminal_report_fits_80_columns_and_colour_says_nothing_alone() -> None:
    names = [
        "triton_poi_fused_" + "_".join(["add", "mul", "silu", "where"] * 9) + f"_{n}" for n in "12"
    ]
    kernels = tuple(UsedKernel(name, "", "pointwise", 6, 600, 100) for name in names)
    comparison = compare(
        [
            Side("a" * 20, "x/a", (recording(STEADY, busy=300_000, table=kernels),)),
            Side("b" * 20, "x/b", (recording(STEADY, busy=310_000, table=kernels[:1]),)),
        ]
    )
    terminal = formats.get("terminal")
    whole = told(comparison, Detail.BRIEF)
    plain = terminal.render(whole, Style())
    assert max(len(line) for line in plain.splitlines()) <= 80
    colored = terminal.render(whole, Style(color=True))
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored).split() == plain.split()
    assert "\x1b[" in colored
    assert "▲ worse" in plain


def test_hostile_names_do_nothing_to_a_terminal() -> None:
    name = "evil\x1b[2J\u202ename\n\x07"
    kernels = (UsedKernel(name, "", "other", 6, 60_000, 10_000),)
    comparison = compare(
        [
            Side("a\x1b[31m", "x", (recording(STEADY, table=kernels),)),
            Side("b", "y", (recording(STEADY),)),
        ]
    )
    line = formats.get("terminal").render(told(comparison), Style())
    assert "evil" in line
    assert not set(line) & set("\x1b\x07\u202e")


def profiled_apart(busy_after: int) -> ComparisonResult:
    """2,000 µs traced and 1,000 unprofiled become 500 and 450; busy 300 becomes `busy_after`."""
    before = recording([2_000_000] * 6, busy=300_000, unprofiled_ns=1_000_000)
    after = recording([500_000] * 6, busy=busy_after, unprofiled_ns=450_000)
    return both(before, after)


def test_estimated_causes_are_not_named_one_by_one() -> None:
    line = profiled_apart(400_000).sentence
    assert "1.00 ms → 450 µs per step" in line
    assert line.endswith(
        "; +100 µs busy, −650 µs idle; most of the idle that went was op dispatch (estimate)."
    )


def test_a_step_busy_for_longer_than_it_takes_is_bridged_as_profiled() -> None:
    found = profiled_apart(460_000).pairs[0]
    assert found.bridge is not None
    assert found.bridge.ends == (2_000_000, 500_000)
    assert found.bridge.notes == (
        "as profiled: the GPU was busy for longer than an unprofiled step takes",
    )
    assert found.metric("idle").source == "as profiled"
    assert found.metric("step_time").source == "unprofiled"


def test_no_part_of_a_recorded_sentence_is_longer_than_its_step() -> None:
    from gaptrace.measure.options import Options
    from gaptrace.runs.read import read_run

    run = read_run("sample_traces/stacked_bf16", Options(), use_cache=False)
    left, right = (Side.of(run.repeats(mode), label=mode) for mode in ("eager", "compiled"))
    line = compare([left, right]).pairs[0].sentence
    assert "57.5 ms → 24.6 ms per step" in line
    assert "+6.79 ms busy, −39.7 ms idle" in line


def test_every_row_of_a_verdict_names_its_key() -> None:
    whole = told(both(recording(STEADY), recording(SLOWER)))
    verdicts = [row.cells[-1] for row in table(whole, "metrics").rows]
    assert all(isinstance(cell, Text) and cell.role == "verdict" and cell.key for cell in verdicts)
