"""Gates: how they are written, which way is worse, and that noise holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gaptrace.compare.gates import (
    gates_from,
    judge_run,
    parse_gate,
)
from gaptrace.compare.metrics import GATES
from gaptrace.compare.side import Side
from gaptrace.document.comparison_words import gate_text, verdict_words
from gaptrace.errors import OptionError
from gaptrace.results.comparison import HELD, NOT_JUDGED, TRIPPED
from gaptrace.runs.compared import compare, compared
from tests.compare.recordings import recording

if TYPE_CHECKING:
    from gaptrace.compare.recording import Recording
    from gaptrace.results.comparison import GateResult

BASE = recording([1000, 1001, 1002, 1003, 1004, 1005], busy=400, kernels=100)
WORSE = recording([1100, 1101, 1102, 1103, 1104, 1105], busy=400, kernels=110)
NOISY = recording([700, 2500, 1100, 900, 1600, 1900], busy=400, kernels=100)


def on_pair(gate: str, base: Recording, cand: Recording) -> GateResult:
    sides = [Side(name, "made/up.json", (one,)) for name, one in (("a", base), ("b", cand))]
    (result,) = compared([(sides[0], sides[1])], gates=[parse_gate(gate)]).gates
    return result


def test_the_names_are_those_of_the_definitions() -> None:
    assert set(GATES) == {
        "kernels",
        "launches",
        "idle",
        "busy",
        "host_dispatch",
        "tokens_per_s",
        "idle_share",
        "peak_memory",
    }


@pytest.mark.parametrize(
    ("text", "limit", "percent"),
    [
        ("idle:5%", 0.05, True),
        ("tokens_per_s:2 %", 0.02, True),
        ("kernels:600", 600, False),
        ("idle:2ms", 2e6, False),
        ("busy:1.5 us", 1500, False),
        ("host_dispatch:3µs", 3000, False),
        ("peak_memory:20GB", 20e9, False),
        ("peak_memory:1GiB", 2**30, False),
        ("tokens_per_s:300", 300, False),
        ("idle_share:40%", 0.4, True),
        ("idle_share:0.4", 0.4, False),
        ("launches:1e3", 1000, False),
    ],
)
def test_gates_are_read(text: str, limit: float, percent: bool) -> None:
    gate = parse_gate(text)
    assert (gate.limit, gate.percent, gate.text) == (pytest.approx(limit), percent, text)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("idel:5%", "no metric 'idel'", "did you mean idle?"),
        ("idle", "has no limit", "idle:5%"),
        ("idle:", "has no limit", "idle:5%"),
        ("idle:lots", "means nothing", "idle:2ms"),
        ("idle:5", "means nothing", "idle:2ms"),
        ("kernels:5ms", "means nothing", "kernels:600"),
        ("tokens_per_s:-5", "means nothing", "tokens_per_s:300"),
        ("peak_memory:5 lemons", "means nothing", "peak_memory:20GB"),
    ],
)
def test_gates_that_mean_nothing_are_refused_with_a_way_out(
    text: str, message: str, hint: str
) -> None:
    with pytest.raises(OptionError, match=message) as refused:
        parse_gate(text)
    assert hint in refused.value.hint


def test_a_relative_gate_trips_where_the_change_is_worse_and_beyond_noise() -> None:
    result = on_pair("kernels:5%", BASE, WORSE)
    assert result.status == TRIPPED
    assert result.text == (
        "kernels rose by 10 (10 %), 100 → 110: the limit is 5.0 % worse, 5.0 % over"
    )
    assert result.pair == "a → b"
    assert on_pair("kernels:15%", BASE, WORSE).status == HELD
    assert on_pair("kernels:5%", WORSE, BASE).status == HELD


def test_rates_are_worse_when_they_fall() -> None:
    assert on_pair("tokens_per_s:5%", BASE, WORSE).status == TRIPPED
    assert on_pair("tokens_per_s:5%", WORSE, BASE).status == HELD
    assert on_pair("tokens_per_s:20%", BASE, WORSE).status == HELD


def test_one_run_a_side_trips_and_says_what_was_not_measured() -> None:
    assert "run-to-run not measured" in on_pair("idle:5%", BASE, WORSE).text


def test_noise_holds_a_gate() -> None:
    result = on_pair("idle:1%", BASE, NOISY)
    assert (result.status, "within noise" in result.text) == (HELD, True)


def test_idle_share_moves_in_points() -> None:
    # 60.0 % idle against 63.6 %.
    result = on_pair("idle_share:2%", BASE, WORSE)
    assert result.status == TRIPPED
    assert "points" in result.text
    assert on_pair("idle_share:5%", BASE, WORSE).status == HELD


def test_a_bound_on_the_candidate() -> None:
    assert on_pair("kernels:105", BASE, WORSE).status == TRIPPED
    assert on_pair("kernels:110", BASE, WORSE).status == HELD
    assert "10 over" not in on_pair("kernels:105", BASE, WORSE).text
    assert "5 over the limit of 105" in on_pair("kernels:105", BASE, WORSE).text
    assert on_pair("tokens_per_s:2e9", BASE, WORSE).status == TRIPPED
    held = on_pair("idle:900ns", BASE, NOISY)
    assert "within noise" in held.text or held.status == HELD


def test_from_nothing_to_something_is_over_every_percentage() -> None:
    none = recording([1000] * 6, kernels=0)
    assert on_pair("kernels:500%", none, BASE).status == TRIPPED
    assert on_pair("kernels:5%", none, none).status == HELD


def test_what_cannot_be_judged_says_why() -> None:
    few = recording([1000] * 3)
    result = on_pair("idle:5%", few, BASE)
    assert (result.status, result.text) == (NOT_JUDGED, "idle: too few steps to judge")
    assert on_pair("peak_memory:5%", BASE, BASE).status == NOT_JUDGED
    assert on_pair("peak_memory:5GB", BASE, BASE).status == NOT_JUDGED


def test_peak_memory_is_one_figure_per_run() -> None:
    small, large = (recording([1000] * 6, peak_memory=size) for size in (10**9, 2 * 10**9))
    assert on_pair("peak_memory:5%", small, large).status == TRIPPED
    assert on_pair("peak_memory:5%", small, small).status == HELD
    assert "2.00 GB" in on_pair("peak_memory:1GB", small, large).text


@pytest.mark.parametrize(
    ("bytes_after", "words"),
    [(10**9 + 20, "equal"), (10**9 - 10**6, "equal"), (10**9 + 2 * 10**6, "worse")],
)
def test_a_thousandth_of_the_peak_memory_says_nothing(bytes_after: int, words: str) -> None:
    base, cand = (recording([1000] * 6, peak_memory=size) for size in (10**9, bytes_after))
    sides = [Side(name, "made/up.json", (one,)) for name, one in (("a", base), ("b", cand))]
    found = compared([(sides[0], sides[1])], gates=[parse_gate("peak_memory:0%")])
    row = found.pairs[0].metric("peak_memory")
    assert (verdict_words(row).split()[1], row.basis) == (words, "exact")
    assert row.change == bytes_after - 10**9
    assert ("0.1 % counts as equal" in row.note) == (words == "equal")
    (gate,) = found.gates
    assert gate.status == (HELD if words == "equal" else TRIPPED)


def test_repeats_a_few_bytes_apart_are_equal_too() -> None:
    def side(name: str, sizes: tuple[int, ...]) -> Side:
        found = tuple(recording([1000] * 6, peak_memory=10**9 + size) for size in sizes)
        return Side(name, "made/up.json", found)

    sides = [side("a", (0, 2, 1, 3)), side("b", (2_000, 2_001, 2_003, 2_002))]
    assert compare(sides).pairs[0].metric("peak_memory").verdict == "within noise"


def test_on_one_run_every_limit_is_a_bound() -> None:
    texts = ("idle_share:40%", "idle_share:0.7", "kernels:99", "tokens_per_s:1")
    gates = [parse_gate(text) for text in texts]
    results = judge_run([BASE], gates, "run")
    assert [result.status for result in results] == [TRIPPED, HELD, TRIPPED, HELD]
    assert gate_text(results[0]) == "idle_share is 60 %: 20.1 points over the limit of 40 %"
    with pytest.raises(OptionError, match="nothing to be relative to"):
        judge_run([BASE], [parse_gate("idle:5%")], "run")


def test_flags_win_over_settings() -> None:
    found = gates_from(["idle:1%"], {"fail-on": ["idle:9%", "kernels:5%"]})
    assert [gate.text for gate in found] == ["idle:1%", "kernels:5%"]
    table = gates_from([], {"fail-on": {"idle": "9%", "kernels": [600, "5%"]}})
    assert [gate.text for gate in table] == ["idle:9%", "kernels:600", "kernels:5%"]
    assert gates_from([], {}) == ()
    with pytest.raises(OptionError, match="neither a list nor a table"):
        gates_from([], {"fail-on": 7})
