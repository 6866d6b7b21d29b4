"""Claims of the two usual kinds: idle time in certain gaps, and host work that could go."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gaptrace.findings.evidence import gap_evidence, host_evidence
from gaptrace.findings.rule import Claim
from gaptrace.measure.view import NEGLIGIBLE, Bools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gaptrace.findings.wording import Fact
    from gaptrace.measure.amount import Amount
    from gaptrace.measure.view import Values, View
    from gaptrace.trace import Ints


def gap_claims(
    view: View,
    rule: str,
    per_gap: Values,
    facts: Mapping[str, Fact],
    least: float = NEGLIGIBLE,
) -> Iterator[Claim]:
    """A claim to `per_gap` ns of each gap, where that is at least `least` of a token's time.

    Its facts include the `gain`, an amount of idle time.
    """
    gain = view.idle_amount(view.by_step(per_gap))
    if not view.matters(gain.ns, least):
        return
    gaps = (view.gap_step >= 0) & (per_gap > 0)
    evidence = gap_evidence(view, per_gap, rule)
    yield Claim(
        rule, gain.ns, {**facts, "gain": gain}, evidence=evidence, places=int(gaps.sum()), gaps=gaps
    )


class HostWork(NamedTuple):
    """Host work that could go: its time, the most that wins, and the gaps that it is won from."""

    time: Amount
    gain: Amount
    gaps: Bools


def host_work(
    view: View, step: Ints, ns: Values, start: Ints, idle: Ints | None = None
) -> HostWork:
    """Pieces of host work, each with its step, time and start; `idle`: see `View.gained`."""
    work, begin = view.per_step(step, ns, start)
    gain = view.idle_amount(view.gained(work, begin, idle=idle))
    return HostWork(view.amount(work), gain, view.late_in(work > 0))


def host_claims(
    view: View,
    rule: str,
    rows: Ints,
    step: Ints,
    ns: Values,
    facts: Mapping[str, Fact],
    *,
    idle: Ints | None = None,
    least: float = NEGLIGIBLE,
) -> Iterator[Claim]:
    """A claim to the time of host events, where it wins at least `least` of a token's time.

    Its facts include the `host_time` of the events and the `gain`, an amount of idle time.
    """
    work = host_work(view, step, ns, view.trace.start[rows], idle)
    if view.matters(work.gain.ns, least):
        yield Claim(
            rule,
            work.gain.ns,
            {**facts, "host_time": work.time, "gain": work.gain},
            evidence=host_evidence(view, rows, step, ns),
            places=int(rows.size),
            gaps=work.gaps,
        )
