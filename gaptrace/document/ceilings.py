"""The ceilings of decode, which one limits the step, what a change would do, and power."""

from __future__ import annotations

from collections.abc import Iterator

from gaptrace import quantity as q
from gaptrace.document.blocks import (
    Block,
    Chart,
    Column,
    Fact,
    Facts,
    Inline,
    Panel,
    Point,
    Row,
    Sentence,
    Series,
    Table,
    Text,
)
from gaptrace.document.sections import Context
from gaptrace.document.tables import fact, facts_of, figures, given, known, table, words
from gaptrace.results.analysis import AnalysisResult, Ceilings, WhatIf

# The lower ceiling is the one side's, and the other side is what the step waits for.
PACED_OTHERWISE = {
    ("launch", "gpu"): "the GPU's own work paces this step",
    ("bandwidth", "host"): "the host paces this step",
}
SILENCE = (
    "The launch ceiling is a range: silence of the launching thread was taken for waiting, and no "
    "limit is named where the two ends disagree."
)
_PACED = {"gpu": "the GPU paces", "host": "the host paces"}


def ceilings(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """The ceilings beside the measured rate, what they stand on, and which limits the step.

    A ceiling that cannot be known is withheld with the reason.
    """
    c, head = result.ceilings, result.headline
    launch = known(c.launch_tokens_per_s, q.TOKENS_PER_S, c.host_dispatch_basis)
    if launch is not None and c.launch_tokens_per_s_range is not None:
        low, high = c.launch_tokens_per_s_range
        launch = q.ranged(launch.value, low, high, q.TOKENS_PER_S, c.host_dispatch_basis)
    bandwidth = known(c.bandwidth_tokens_per_s, q.TOKENS_PER_S)
    bus = known(c.bus_tokens_per_s, q.TOKENS_PER_S)
    if launch is None and bandwidth is None and bus is None and head.tokens_per_s is None:
        return
    if c.binding:
        yield Sentence(_limited_by(c), "lead")
    elif c.launch_tokens_per_s_range is not None:
        yield Sentence((SILENCE,))
    if launch is not None or bandwidth is not None or bus is not None:
        measured = known(head.tokens_per_s, q.TOKENS_PER_S, head.basis)
        yield _chart(context, launch, bandwidth, bus, measured)
    yield Facts(facts_of(*_facts(result, launch, bandwidth, bus)))


def _limited_by(c: Ceilings) -> tuple[Inline, ...]:
    paced = PACED_OTHERWISE.get((c.binding or "", c.paced_by or ""), "")
    lead = "Lower ceiling" if paced else "Limited by"
    busy = given(" (GPU busy ", known(c.busy_share, q.SHARE), ")") if paced else ()
    return (
        f"{lead}: ",
        Text(f"the {c.binding} ceiling", term=f"{c.binding}-ceiling"),
        *given("; the measured rate is ", known(c.distance, q.SHARE), " of it"),
        f", but {paced}" if paced else "",
        *busy,
        *given(
            "; ",
            Text("crossover", term="crossover"),
            " at ",
            known(c.handover_bits_per_weight, q.BITS),
            " per weight",
        ),
        *given(" (now ", known(c.bits_per_weight, q.BITS), ")"),
        ".",
    )


def _chart(
    context: Context,
    launch: q.Quantity | None,
    bandwidth: q.Quantity | None,
    bus: q.Quantity | None,
    measured: q.Quantity | None,
) -> Chart:
    marks = [
        ("launch", "launch ceiling", "launch-ceiling", launch),
        ("bandwidth", "bandwidth ceiling", "bandwidth-ceiling", bandwidth),
        ("bus", "bus ceiling", "bus-ceiling", bus),
        ("measured", "measured", "tokens-per-s", measured),
    ]
    shown = [(key, label, term, rate) for key, label, term, rate in marks if rate is not None]
    series = tuple(
        Series(label, (Point(0, rate, label, key),), key, "marks" if key == "measured" else "line")
        for key, label, _, rate in shown
    )
    rows = tuple(
        Row((Text(label, term=term), rate), q.TOKENS_PER_S, rate.basis, key=key)
        for key, label, term, rate in shown
    )
    columns = (Column("ceiling", "ceiling"), Column("rate", "tokens-per-s", numeric=True))
    anchor = f"{context.prefix}ceilings-chart"
    panel = Panel("", "", "tokens per second", q.TOKENS_PER_S, series, x_scale="log")
    return Chart(anchor, "Ceilings", "axis", (panel,), Table(anchor, "", columns, rows))


def _facts(
    result: AnalysisResult,
    launch: q.Quantity | None,
    bandwidth: q.Quantity | None,
    bus: q.Quantity | None,
) -> Iterator[Fact | None]:
    c = result.ceilings
    if launch is None:
        yield fact("launch ceiling", _no_launch(result), term="launch-ceiling")
    yield fact(
        "host dispatch",
        known(c.host_dispatch_ns, q.NS, c.host_dispatch_basis, c.host_dispatch_bound),
        f" a step, {c.host_dispatch_source}",
        term="host-dispatch",
    )
    if bandwidth is None:
        yield fact("bandwidth ceiling", _no_bandwidth(c), term="bandwidth-ceiling")
    source = f" ({c.weight_bytes_source})" if c.weight_bytes_source else ""
    yield fact("weights", known(c.weight_bytes, q.BYTES), f" a step{source}", term="weight-bytes")
    cache = known(c.kv_bytes, q.BYTES)
    yield fact(
        "KV cache",
        cache or ("not counted" if c.weight_bytes is not None else ""),
        f" a step ({c.kv_bytes_source})" if cache else None,
        term="kv-bytes",
    )
    source = f" ({c.peak_bandwidth_source})" if c.peak_bandwidth_source else ""
    yield fact(
        "peak bandwidth",
        known(c.peak_bandwidth_bytes_per_s, q.BYTES_PER_S),
        source,
        term="peak-bandwidth",
    )
    if not c.bus_bound:
        return
    if bus is None:
        yield fact("bus ceiling", _no_bus(c), term="bus-ceiling")
    yield fact("copied over the bus", known(c.bus_bytes, q.BYTES), " a step", term="copies")
    yield fact(
        "bus bandwidth",
        known(c.bus_bandwidth_bytes_per_s, q.BYTES_PER_S),
        f" one way ({c.bus_bandwidth_source})" if c.bus_bandwidth_source else "",
        term="bus-ceiling",
    )


def _no_launch(result: AnalysisResult) -> str:
    why = result.quality.why("ceilings", "host_dispatch", "host", "steps", "rate", "per_token")
    return f"withheld with the host dispatch time: {why}" if why else "host dispatch is not known"


def _no_bandwidth(c: Ceilings) -> str:
    """Why there is no bandwidth ceiling, and what to give for one."""
    if c.weight_bytes is None and c.weight_bytes_source:
        return f"unknown: {c.weight_bytes_source} (--weight-bytes)"
    if c.weight_bytes is None:
        return (
            "unknown: no shapes were recorded (record with record_shapes=True, or give "
            "--weight-bytes)"
        )
    return "unknown: no peak bandwidth for this GPU (--peak-bandwidth)"


def _no_bus(c: Ceilings) -> str:
    """Why a step that the bus limits has no bus ceiling, and what to give for one."""
    if c.bus_bytes is None:
        return "withheld: the copies' bytes were not recorded"
    if c.bus_bandwidth_bytes_per_s is None:
        return "withheld: no bandwidth of the link to the host is known (--bus-bandwidth)"
    return "withheld: the step copies faster than the bandwidth given (--bus-bandwidth)"


def what_would_help(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """The step under one change at a time, modelled."""
    if not result.what_if:
        return
    yield table(
        f"{context.prefix}what-if",
        "what if (modelled)",
        result.what_if,
        [
            words("", lambda item: item.title, "what-if"),
            figures("step", q.NS, lambda item: item.step_ns, q.PREDICTED, "period"),
            figures("rate", q.TOKENS_PER_S, lambda item: item.tokens_per_s, q.PREDICTED),
            figures("against now", q.TIMES, lambda item: item.times_now, q.PREDICTED),
            words("limited by", _then_limited_by, "binding-ceiling"),
        ],
        key=lambda item: item.id,
    )


def _then_limited_by(item: WhatIf) -> str:
    """What limits the step after the change.

    A ceiling that has moved says nothing where the step stays as it is.
    """
    if item.binding is None:
        return ""
    if not item.changes:
        return "no change"
    if (item.binding, item.paced_by) in PACED_OTHERWISE:
        return f"{item.binding}; {_PACED[item.paced_by or '']}"
    return item.binding


def power(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """Power and clocks while unprofiled steps ran."""
    found = result.power
    if found is None:
        return
    yield Facts(
        facts_of(
            fact(
                "board power",
                q.Quantity(found.mean_w, q.WATT),
                *given(" of ", known(found.limit_w, q.WATT)),
                *given(" (", known(found.limit_share, q.SHARE), ")"),
                term="power",
            ),
            fact("energy", known(found.joules_per_token, q.JOULE), " per token"),
            fact(
                "SM clock",
                known(found.sm_mhz, q.MEGAHERTZ),
                *given(" of ", known(found.sm_mhz_max, q.MEGAHERTZ)),
            ),
            fact("temperature", known(found.temperature_c, q.COUNT), " °C at most"),
            fact(
                "GPU busy", known(result.ceilings.busy_share, q.SHARE), " of the step", term="busy"
            ),
            fact("samples", q.Quantity(found.samples, q.COUNT)),
        )
    )
