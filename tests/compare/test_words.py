"""What a comparison says: sentences, signs, the terminal report."""

from __future__ import annotations

import dataclasses

import pytest
from gaptrace.compare.words import change_text, signed_share, signed_time, value_text

from gaptrace.compare.recording import Recording, UsedKernel
from gaptrace.compare.side import Side
from gaptrace.compare.two_by_two import subject
from gaptrace.report.compare_text import comparison_report, interval_text
from gaptrace.results.comparison import Pair
from gaptrace.runs.compared import compare
from tests.compare.recordings import recording

STEADY = [1_000_000 + offset for offset in range(6)]


def pair(left: Recording, right: Recording) -> Pair:
    return compare([Side("a", "x/a", (left,)), Side("b", "x/b", (right,))]).pairs[0]


def copies(count: int, each_ns: int) -> UsedKernel:
    return UsedKernel("triton_poi_fused_copy__1", "", "copy", count, count * each_ns, each_ns)


def test_signs_and_units() -> None:
    assert signed_time(-1_500) == "−1.50 µs"
    assert signed_time(12_000_000) == "+12.0 ms"
    assert signed_time(0) == "0 µs"
    assert signed_share(0.05) == "+5.0 %"
    assert signed_share(-0.0004) == "−0.04 %"
    assert signed_share(None) == "–"
    assert change_text("share", -0.083) == "−8.30 points"
    assert change_text("count", 3) == "+3"
    assert change_text("ns", None) == "–"
    assert value_text("bytes", 2e9) == "2.00 GB"
    assert value_text("tok/s", 97.2) == "97.2 tok/s"


def test_a_slower_step_is_said_with_its_parts() -> None:
    slower = [value + 200_000 for value in STEADY]
    text = pair(recording(STEADY, busy=300_000), recording(slower, busy=300_000)).sentence
    assert text == (
        "1\u2009000 µs → 1\u2009200 µs per step (1\u2009000 tok/s → 833 tok/s): +20 %, worse "
        "beyond step noise; run-to-run not measured; +200 µs idle: op dispatch."
    )


def test_a_large_factor_is_said_as_one() -> None:
    text = pair(recording(STEADY), recording([value // 4 for value in STEADY])).sentence
    assert "4.00x faster, better beyond step noise" in text


def test_the_same_and_the_noisy_are_not_called_a_change() -> None:
    assert "the same." in pair(recording(STEADY), recording(STEADY)).sentence
    rough = [900_000, 1_100_000, 1_300_000, 800_000, 1_000_500, 1_050_000]
    assert "within noise." in pair(recording(STEADY), recording(rough)).sentence


def test_no_steps_is_said() -> None:
    text = pair(recording(STEADY), recording(STEADY, withheld=frozenset({"per_token"}))).sentence
    assert text == "No step time to compare: unknown or withheld on the candidate."


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
        ("as-is", "compiled", "the candidate"),
        ("eager", "eager", "the candidate"),
    ],
)
def test_what_was_done_is_named(before: str, after: str, expected: str) -> None:
    sides = [Side(mode, "", (recording(STEADY, mode=mode),)) for mode in (before, after)]
    assert subject(*sides) == expected


def test_the_interval_is_relative_to_the_baseline() -> None:
    row = pair(recording(STEADY), recording([value + 100_000 for value in STEADY])).metrics[0]
    assert interval_text(row) == "+10 … +10 %"
    assert interval_text(pair(recording(STEADY), recording(STEADY)).metric("kernels")) == "exact"


def test_the_terminal_report_fits_80_columns_and_colour_says_nothing_alone() -> None:
    names = [
        "triton_poi_fused_" + "_".join(["add", "mul", "silu", "where"] * 9) + f"_{n}" for n in "12"
    ]
    table = tuple(UsedKernel(name, "", "pointwise", 6, 600, 100) for name in names)
    comparison = compare(
        [
            Side("a" * 20, "x/a", (recording(STEADY, busy=300_000, table=table),)),
            Side("b" * 20, "x/b", (recording(STEADY, busy=310_000, table=table[:1]),)),
        ]
    )
    plain = comparison_report(comparison, color=False)
    assert max(len(line) for line in plain.splitlines()) <= 80
    colored = comparison_report(comparison, color=True)
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", colored).split() == plain.split()
    assert "\x1b[" in colored
    assert "▲ worse" in plain


def test_hostile_names_do_nothing_to_a_terminal() -> None:
    name = "evil\x1b[2J\u202ename\n\x07"
    table = (UsedKernel(name, "", "other", 6, 60_000, 10_000),)
    comparison = compare(
        [
            Side("a\x1b[31m", "x", (recording(STEADY, table=table),)),
            Side("b", "y", (recording(STEADY),)),
        ]
    )
    text = comparison_report(comparison, color=False)
    assert "evil" in text
    assert not set(text) & set("\x1b\x07\u202e")


def profiled_apart(busy_after: int) -> Pair:
    """2,000 µs traced and 1,000 unprofiled become 500 and 450; busy 300 becomes `busy_after`."""
    before = recording([2_000_000] * 6, busy=300_000, unprofiled_ns=1_000_000)
    after = recording([500_000] * 6, busy=busy_after, unprofiled_ns=450_000)
    return pair(before, after)


def test_parts_that_profiling_swelled_are_not_named_one_by_one() -> None:
    text = profiled_apart(400_000).sentence
    assert "1\u2009000 µs → 450 µs per step" in text
    assert text.endswith(
        "; +100 µs busy, −650 µs idle; most of the traced idle that went was op dispatch."
    )


def test_a_step_busy_for_longer_than_it_takes_has_no_parts() -> None:
    text = profiled_apart(460_000).sentence
    assert "busy" not in text
    assert "idle" not in text


def test_a_little_profiling_leaves_the_parts_as_they_are() -> None:
    before = recording([1_010_000] * 6, busy=300_000, unprofiled_ns=1_000_000)
    after = recording([460_000] * 6, busy=300_000, unprofiled_ns=450_000)
    assert pair(before, after).sentence.endswith("; −550 µs idle: op dispatch.")


def test_no_part_of_a_recorded_sentence_is_longer_than_its_step() -> None:
    from gaptrace.measure.options import Options
    from gaptrace.runs.read import read_run
    from tests.report.material import SAMPLES

    run = read_run(str(SAMPLES / "stacked_bf16"), Options(), use_cache=False)
    left, right = (Side.of(run.representative(mode), label=mode) for mode in ("eager", "compiled"))
    found = compare([left, right]).pairs[0]
    words = found.sentence.replace("\u2009", "")
    assert "57.5 ms → 24.6 ms per step" in words
    assert "+6790 µs busy, −39.7 ms idle" in words
