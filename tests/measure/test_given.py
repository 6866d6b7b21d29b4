"""A step given by hand: what follows from it, and every way in which it cannot be right."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from gaptrace.analysis import Analysis, analyze
from gaptrace.measure.options import GivenStep, Options
from gaptrace.trace import RunInfo
from tests.builders import Event, kernel, launch, mark, op, trace_of

MARK = "gaptrace.step#{}"


def step(number: int, at: int, corr: int, name: str, kernel_ns: int = 40) -> list[Event]:
    """One step of 100 ns: the kernel runs from 20 on, the rest of it the GPU is idle."""
    return [
        mark(name.format(number), at=at, dur=90),
        launch(at=at + 10, dur=5, corr=corr),
        kernel("k", at=at + 20, dur=kernel_ns, corr=corr),
    ]


def steps(count: int = 7, name: str = MARK, kernel_ns: int = 40) -> list[Event]:
    found = [e for i in range(count) for e in step(i, 100 * i, i + 1, name, kernel_ns)]
    return [*found, op("aten::elsewhere", at=1, dur=1, tid=9)]


def given(
    events: Sequence[Event],
    step_ns: int | None = None,
    tokens_per_s: float | None = None,
    **options: float,
) -> Analysis:
    chosen = Options(given=GivenStep(step_ns, tokens_per_s), **options)  # type: ignore[arg-type]
    return analyze(trace_of(*events), chosen)


def said(analysis: Analysis) -> dict[str, str]:
    return {reason.id: reason.text for reason in analysis.result.quality.reasons}


def unused(analysis: Analysis) -> str:
    """Why what was given is not used; everything is then as without it."""
    rate = analysis.result.rate
    assert (rate.source, rate.unprofiled_step_ns, rate.dilation) == ("as profiled", None, None)
    assert analysis.result.headline.basis == "traced"
    assert analysis.result.quality.verdict == "limited"
    assert analysis.result.quality.withholds("unprofiled_step")
    return said(analysis)["given_step_unusable"]


def test_every_unprofiled_formula_holds_for_a_given_step() -> None:
    found = given(steps(), 50).result
    rate, head, limits = found.rate, found.headline, found.ceilings
    assert (rate.source, rate.unprofiled_step_ns, rate.unprofiled_idle_ns) == ("given", 50, 10)
    assert (rate.tokens_per_s, rate.profiled_tokens_per_s, rate.dilation) == (2e7, 1e7, 2)
    assert rate.unprofiled_idle_share == 0.2
    assert (head.basis, head.idle_basis, head.step_ns, head.idle_ns) == ("given", "given", 50, 10)
    # As profiled the host takes 100 ns, which is more than the whole step.
    assert (limits.host_dispatch_ns, limits.host_dispatch_basis) == (50, "given")
    assert (limits.host_dispatch_bound, limits.launch_tokens_per_s) == ("at_most", 2e7)
    assert limits.busy_share == 0.8
    assert found.quality.verdict == "ok"
    assert "50.0 ns per step (given). The GPU idles 20 % of it" in found.sentence


def test_a_rate_is_the_same_as_the_step_that_it_makes() -> None:
    by_step, by_rate = given(steps(), 50).result, given(steps(), None, 2e7).result
    assert by_rate.rate == by_step.rate
    assert by_rate.headline == by_step.headline
    both = given(steps(), 50, 2.01e7).result.rate
    assert (both.tokens_per_s, both.unprofiled_step_ns) == (2.01e7, 50)


def test_tokens_per_step_scale_a_given_rate() -> None:
    found = given(steps(), None, 8e7, tokens_per_step=4).result.rate
    assert (found.unprofiled_step_ns, found.tokens_per_s) == (50, 8e7)


def test_a_step_shorter_than_the_busy_time_is_of_another_step() -> None:
    why = unused(given(steps(), 30))
    assert "30.0 ns (--unprofiled-step) is shorter than the GPU is busy in a step, 40.0 ns" in why


def test_a_step_as_long_as_the_busy_time_within_noise_has_no_known_idle_time() -> None:
    found = given(steps(), 39)
    rate, head = found.result.rate, found.result.headline
    assert (rate.source, rate.unprofiled_step_ns, rate.unprofiled_idle_ns) == ("given", 39, None)
    assert (head.step_ns, head.idle_ns, head.idle_share) == (39, None, None)
    assert found.result.quality.withholds("unprofiled_idle")
    assert "not known" in said(found)["given_step_all_busy"]
    assert found.result.ceilings.busy_share == 1
    assert {f.ceiling_ns_per_token for f in found.result.findings} <= {0}
    assert found.sentence.endswith("idle time is withheld, see below.")


def test_a_step_longer_than_the_profiled_one_is_of_another_step() -> None:
    assert "120 ns (--unprofiled-step) is longer than the profiled one, 100 ns" in unused(
        given(steps(), 120)
    )
    # Recordings of one program differ by as much.
    assert given(steps(), 104).result.rate.source == "given"


def test_an_open_step_may_be_shorter_than_the_whole_one() -> None:
    found = given(steps(1), 90).result.rate
    assert (found.source, found.dilation) == ("given", None)


def test_a_step_and_a_rate_that_disagree_are_both_refused() -> None:
    why = unused(given(steps(), 50, 3e7))
    assert "contradict each other" in why
    assert "make 1.50 tokens a step, and it has 1" in why


def test_a_contradiction_that_rests_on_assumed_tokens_says_how_to_mend_it() -> None:
    events = steps(name="decode {}")
    assert "assumed" in unused(given(events, 50, 16e7))
    assert "--tokens-per-step" in unused(given(events, None, 16e7))


SPECULATIVE = "execute_context_0(0)_generation_2(8) #{}"


def test_under_speculation_a_step_makes_a_range_of_rates() -> None:
    events = steps(name=SPECULATIVE)
    bare = analyze(trace_of(*events)).result
    low, high = bare.rate.tokens_per_s_range or (None, None)
    assert low
    assert high
    assert bare.rate.tokens_per_s is None
    found = given(events, 50).result.rate
    assert (found.source, found.tokens_per_s) == ("given", None)
    assert found.tokens_per_s_range == (2 * low, 2 * high)
    assert found.unprofiled_idle_ns == 10


def test_under_speculation_a_rate_alone_makes_no_step() -> None:
    why = unused(given(steps(name=SPECULATIVE), None, 8e7))
    assert "how many tokens a step makes is not known" in why
    known = given(steps(name=SPECULATIVE), None, 8e7, tokens_per_step=4).result.rate
    assert known.unprofiled_step_ns == 50


def test_under_speculation_a_step_and_a_rate_may_make_any_possible_number_of_tokens() -> None:
    events = steps(name=SPECULATIVE)
    ends = analyze(trace_of(*events)).result.rate.tokens_per_s_range
    assert ends == (2e7, 8e7)
    found = given(events, 50, 8e7).result.rate
    assert (found.tokens_per_s, found.unprofiled_step_ns) == (8e7, 50)
    assert "at most 8" in unused(given(events, 50, 20e7))
    assert "at least 2" in unused(given(events, 50, 2e7))


def test_steps_that_make_no_tokens_take_a_step_and_no_rate() -> None:
    events = steps(name="forward {}")
    kind = analyze(trace_of(*events)).result.steps.kind
    assert kind == "inference"
    assert "make no tokens" in unused(given(events, None, 2e7))
    found = given(events, 50).result
    assert (found.rate.steps_per_s, found.rate.tokens_per_s) == (2e7, None)
    assert found.headline.idle_ns == 10


def test_without_a_step_there_is_nothing_that_was_given() -> None:
    alone = [kernel("k", at=20, dur=40, corr=1), launch(at=10, dur=5, corr=1)]
    for events in (alone, [op("aten::mm", at=0, dur=9)]):
        found = given(events, 50)
        assert "no step of this trace" in said(found)["given_step_unusable"]
        assert found.result.rate.source == "as profiled"


def test_one_time_cannot_be_that_of_several_batch_sizes() -> None:
    events = [e for i in range(8) for e in step(i, 100 * i, i + 1, f"step[DECODE bs={i + 1}] ")]
    found = given(events, 50)
    assert found.step_table is not None
    assert found.step_table.population.mixed
    assert "several batch sizes" in unused(found)


MANIFEST = {
    "mode": "eager",
    "step": {"tokens": 1, "batch": 1},
    "unprofiled": {"median_ns": 60},
    "issue_ns": 55,
}


@pytest.mark.parametrize(
    ("step_ns", "source", "shown"), [(50, "given", 50), (30, "unprofiled", 60)]
)
def test_what_is_given_wins_over_what_the_run_measured_unless_it_cannot_be(
    step_ns: int, source: str, shown: int
) -> None:
    trace = dataclasses.replace(trace_of(*steps()), run=RunInfo("runs/x/eager/1", MANIFEST))
    found = analyze(trace, Options(given=GivenStep(step_ns)))
    rate = found.result.rate
    assert (rate.source, rate.unprofiled_step_ns) == (source, shown)
    words = " ".join(said(found).values())
    if source == "given":
        assert (
            "50.0 ns (--unprofiled-step) stands in place of what the run itself measured" in words
        )
        assert "60.0 ns" in words
        # The run's issue time is longer than the step that was given.
        assert found.result.ceilings.host_dispatch_ns == 50
    else:
        assert "what the run itself measured is shown" in words
        assert not found.result.quality.withholds("unprofiled_step")
