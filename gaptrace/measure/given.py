"""A step measured without the profiler and given by hand: is it one of this trace, what follows?

The profiler slows the host and leaves kernels as they are. So the step without it is no shorter
than the GPU is busy in it and no longer than the profiled one, and the tokens of a step tie its
time to a rate. A time that breaks one of these is of another step: it is not used, and the reason
says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

import msgspec

from gaptrace.errors import OptionError
from gaptrace.measure.headline import PROFILED, Headline, rate_range
from gaptrace.measure.kind import INFERENCE, TRAINING
from gaptrace.measure.options import NOT_GIVEN, GivenStep
from gaptrace.measure.quality import LIMITED, NOTE, Quality, Reason
from gaptrace.measure.stats import share
from gaptrace.measure.steps import Steps
from gaptrace.quantity import COUNT, GIVEN, NS, TOKENS_PER_S, TRACED, UNPROFILED, Quantity, Words
from gaptrace.results.analysis import TOKENS_ASSUMED, Rate

STEP, RATE = "--unprofiled-step", "--tokens-per-second"
EXAMPLE = {STEP: "40.65ms", RATE: "24.6"}
LONGEST_NS = 10**15
_TIME = re.compile(r"(\d+\.?\d*|\.\d+)(?:e([+-]?\d{1,2}))?\s*(ns|us|µs|μs|ms|s)?", re.IGNORECASE)
_EXPONENT = {"ns": 0, "us": 3, "µs": 3, "μs": 3, "ms": 6, "s": 9}
# Identical work differs by less than this between two recordings of a step that the GPU paces.
NOISE = 0.05
# A time and a rate of three digits each agree this well.
ROUNDED = 0.02
# What a given step would have told, by its names in `Quality.withheld`.
WITHHELD = ("unprofiled_step", "unprofiled_idle")


@dataclass(frozen=True)
class _Timed:
    """The step that is meant: its time in ns, what was given, in words, and what would help."""

    step_ns: float
    words: tuple[str | Quantity, ...]
    hint: str


class _UnusableError(Exception):
    """What was given is of no step of this trace; `words` say why."""

    def __init__(self, *words: str | Quantity) -> None:
        super().__init__()
        self.words = words


def with_given(
    head: Headline, steps: Steps | None, quality: Quality, given: GivenStep
) -> tuple[Headline, Quality]:
    """The headline with the rate, step and idle time that a given step makes, and what it says.

    Unprofiled idle is the given step less the traced busy time, dilation the traced period over the
    given step. A given step replaces one that the run measured. Where it contradicts the trace the
    headline stays as it is.
    """
    if not given:
        return head, quality
    try:
        timed = _timed(head, steps, quality, given)
        _check(timed, head)
    except _UnusableError as error:
        measured = head.rate.source != PROFILED
        left = "; what the run itself measured is shown" if measured else ""
        hidden = () if measured else WITHHELD
        reason = Reason("given_step_unusable", (*error.words, left), LIMITED, withheld=hidden)
        return head, quality.also(reason)
    found = _rate(timed, head, steps, given)
    return replace(head, rate=found), quality.also(*_remarks(timed, head, found))


def _timed(head: Headline, steps: Steps | None, quality: Quality, given: GivenStep) -> _Timed:
    """The step that was given, or that a given rate makes."""
    option = RATE if given.step_ns is None else STEP
    if steps is None or quality.withholds("steps", "period", "ceilings"):
        raise _UnusableError(
            f"{option} is not used: no step of this trace is known that it could be of"
        )
    if steps.population.mixed:
        raise _UnusableError(
            f"{option} is not used: steps of several batch sizes are taken together, and one time "
            "cannot be that of all"
        )
    makes_none = head.kind in (INFERENCE, TRAINING) and not head.has_tokens
    if given.tokens_per_s is not None and makes_none:
        raise _UnusableError(
            f"{RATE} is not used: these are steps of {head.kind}, which make no tokens; give {STEP}"
            ", or say with --tokens-per-step what a step makes"
        )
    rate = Quantity(given.tokens_per_s, TOKENS_PER_S, GIVEN)
    if given.step_ns is None:
        if not head.has_tokens or not head.tokens_per_step:
            raise _UnusableError(
                f"{RATE} is not used: how many tokens a step makes is not known, so no step time "
                f"follows from it; give {STEP}, or --accepted or --tokens-per-step as well"
            )
        assert given.tokens_per_s is not None
        step = head.tokens_per_step * 1e9 / given.tokens_per_s
        tokens = Quantity(head.tokens_per_step, COUNT)
        assumed = head.tokens_source == TOKENS_ASSUMED
        each = " tokens a step, which is assumed" if assumed else " tokens a step"
        words: tuple[str | Quantity, ...]
        words = ("the step of ", Quantity(step, NS, GIVEN), " that ", rate, f" ({RATE}) make at ",
                 tokens, each)  # fmt: skip
        return _Timed(step, words, " (--tokens-per-step)" if assumed else "")
    words = ("the step of ", Quantity(given.step_ns, NS, GIVEN), f" ({STEP})")
    timed = _Timed(given.step_ns, words, "")
    if given.tokens_per_s is not None:
        _check_both(given.step_ns, given.tokens_per_s, head, steps)
    return timed


def _check_both(step_ns: int, tokens_per_s: float, head: Headline, steps: Steps) -> None:
    """Raise where a step and a rate make another number of tokens than a step has."""
    made = step_ns * tokens_per_s / 1e9
    if head.has_tokens:
        low = high = head.tokens_per_step
        assumed = ", which is assumed" if head.tokens_source == TOKENS_ASSUMED else ""
    else:
        ends = rate_range(steps, 1e9) or (None, None)
        low, high, assumed = *ends, ""
    fewer = low is not None and made < low * (1 - ROUNDED)
    if not fewer and (high is None or made <= high * (1 + ROUNDED)):
        return
    bound = (low if fewer else high) or 0
    limit = "" if head.has_tokens else "at least " if fewer else "at most "
    raise _UnusableError(
        f"{STEP} and {RATE} contradict each other, and neither is used: ",
        Quantity(step_ns, NS, GIVEN), " at ", Quantity(tokens_per_s, TOKENS_PER_S, GIVEN),
        " make ", Quantity(made, COUNT), f" tokens a step, and it has {limit}",
        Quantity(bound, COUNT), f"{assumed} (--tokens-per-step)",
    )  # fmt: skip


def _check(timed: _Timed, head: Headline) -> None:
    """Raise where no step of the trace can have taken that time without the profiler."""
    busy, period = head.steps["busy_ns"].median, head.steps["period_ns"]
    if busy is not None and timed.step_ns < busy * (1 - NOISE):
        raise _UnusableError(
            *timed.words, " is shorter than the GPU is busy in a step, ",
            Quantity(busy, NS, TRACED), ", and the profiler does not slow kernels: it is of another"
            f" step (model, batch, GPU, mode?) and not used{timed.hint}",
        )  # fmt: skip
    if period.median is None or not head.complete:
        return  # An open step ends with its last op: the whole one may be longer.
    longest = max(period.median * (1 + NOISE), period.p95 or 0)
    if timed.step_ns > longest:
        raise _UnusableError(
            *timed.words, " is longer than the profiled one, ",
            Quantity(period.median, NS, TRACED), ", and the profiler only slows: it is of another"
            f" step (model, batch, GPU, mode?) and not used{timed.hint}",
        )  # fmt: skip


def _rate(timed: _Timed, head: Headline, steps: Steps | None, given: GivenStep) -> Rate:
    assert steps is not None
    step = timed.step_ns
    busy, period = head.steps["busy_ns"].median, head.steps["period_ns"].median
    rate = given.tokens_per_s
    if rate is None and head.has_tokens and head.tokens_per_step:
        rate = head.tokens_per_step * 1e9 / step
    idle = None if busy is None or step < busy else int(step - busy)
    return msgspec.structs.replace(
        head.rate,
        tokens_per_s=rate,
        tokens_per_s_range=rate_range(steps, step),
        steps_per_s=1e9 / step,
        source=GIVEN,
        dilation=period / step if period and head.complete else None,
        unprofiled_step_ns=round(step),
        unprofiled_idle_ns=idle,
        unprofiled_idle_share=share(idle, step),
    )


def _remarks(timed: _Timed, head: Headline, found: Rate) -> Iterator[Reason]:
    """What is to be known of a given step that is used."""
    busy, own = head.steps["busy_ns"].median, head.rate
    if busy is not None and timed.step_ns < busy:
        yield Reason(
            "given_step_all_busy",
            (
                *timed.words, " is shorter than the GPU is busy in a step as profiled, ",
                Quantity(busy, NS, TRACED), ", by no more than recordings differ: idle time "
                "without the profiler is not known",
            ),
            LIMITED,
            withheld=("unprofiled_idle",),
        )  # fmt: skip
    if own.source != PROFILED:
        words: Words = (
            *timed.words, " stands in place of what the run itself measured, ",
            Quantity(own.unprofiled_step_ns, NS, UNPROFILED),
        )  # fmt: skip
        yield Reason("given_step", words, NOTE)


def time_ns(option: str, text: str) -> int:
    """A time with its unit in ns: `40.65ms`.

    Raises:
        OptionError: it is no time, has no unit, or is zero.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise OptionError(f"{option} {text!r} is not a time", f"write it as {EXAMPLE[STEP]}")
    if found[3] is None:
        raise OptionError(
            f"{option} {text!r} has no unit",
            f"write {text}ms, or s, us, ns: a bare number could be any of them",
        )
    places = _EXPONENT[found[3].lower()] + int(found[2] or 0)
    ns = int((Decimal(found[1]) * Decimal(10) ** places).to_integral_value())
    if not 0 < ns < LONGEST_NS:
        raise OptionError(f"{option} {text!r} is no time of a step", f"such as {EXAMPLE[STEP]}")
    return ns


def rate_of(text: str) -> float:
    """Tokens per second: `24.6`, `24.6 tok/s`.

    Raises:
        OptionError: it is no rate.
    """
    number = text.lower().removesuffix("tok/s").strip()
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e12:
        raise OptionError(
            f"{RATE} {text!r} is not a rate", f"write tokens per second, such as {EXAMPLE[RATE]}"
        )
    return value


def given_of(text: str) -> GivenStep:
    """A step or a rate, whichever the text is: `40.65ms`, `24.6 tok/s`; nothing for no text.

    Raises:
        OptionError: it is neither.
    """
    text = text.strip()
    if not text:
        return NOT_GIVEN
    if text.lower().endswith("tok/s"):
        return GivenStep(tokens_per_s=rate_of(text))
    return GivenStep(step_ns=time_ns(STEP, text))
