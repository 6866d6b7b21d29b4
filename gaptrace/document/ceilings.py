"""The ceilings of decode, which one limits the step, what a change would do, and power."""

from __future__ import annotations

from collections.abc import Iterator

from gaptrace import quantity as q
from gaptrace.document import blocks as b
from gaptrace.document import tables as t
from gaptrace.document.sections import Context
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


def ceilings(result: AnalysisResult, context: Context) -> Iterator[b.Block]:
    """The ceilings beside the measured rate, what they stand on, and which limits the step.

    A ceiling that cannot be known is withheld with the reason.
    """
    c, head = result.ceilings, result.headline
    launch = t.known(c.launch_tokens_per_s, q.TOKENS_PER_S, c.host_dispatch_basis)
    if launch is not None and c.launch_tokens_per_s_range is not None:
        ends = c.launch_tokens_per_s_range
        launch = q.ranged(launch.value, *ends, q.TOKENS_PER_S, c.host_dispatch_basis)
    rates = {
        "launch": launch,
        "bandwidth": t.known(c.bandwidth_tokens_per_s, q.TOKENS_PER_S),
        "bus": t.known(c.bus_tokens_per_s, q.TOKENS_PER_S),
        "measured": t.known(head.tokens_per_s, q.TOKENS_PER_S, head.basis),
    }
    known = {key: rate for key, rate in rates.items() if rate is not None}
    if not known:
        return
    if c.binding:
        yield b.Sentence(_limited_by(c), "lead")
    elif c.launch_tokens_per_s_range is not None:
        yield b.Sentence((SILENCE,))
    if set(known) != {"measured"}:
        yield _chart(known)
    yield t.facts(*_facts(result))


def _limited_by(c: Ceilings) -> tuple[b.Inline, ...]:
    paced = PACED_OTHERWISE.get((c.binding or "", c.paced_by or ""), "")
    crossover = b.Text("crossover", term="crossover")
    return (
        "Lower ceiling: " if paced else "Limited by: ",
        b.Text(f"the {c.binding} ceiling", term=f"{c.binding}-ceiling"),
        *t.given("; the measured rate is ", t.known(c.distance, q.SHARE), " of it"),
        f", but {paced}" if paced else "",
        *(t.given(" (GPU busy ", t.known(c.busy_share, q.SHARE), ")") if paced else ()),
        *t.given("; ", crossover, " at ", t.known(c.handover_bits_per_weight, q.BITS),
                 " per weight"),
        *t.given(" (now ", t.known(c.bits_per_weight, q.BITS), ")"),
        ".",
    )  # fmt: skip


def _chart(rates: dict[str, q.Quantity]) -> b.Chart:
    words = {
        "launch": ("launch ceiling", "launch-ceiling"),
        "bandwidth": ("bandwidth ceiling", "bandwidth-ceiling"),
        "bus": ("bus ceiling", "bus-ceiling"),
        "measured": ("measured", "tokens-per-s"),
    }
    series, rows = [], []
    for key, rate in rates.items():
        label, term = words[key]
        style = "marks" if key == "measured" else "line"
        series.append(b.Series(label, (b.Point(0, rate, label, key),), key, style))
        cells = (b.Text(label, term=term), rate)
        rows.append(b.Row(cells, q.TOKENS_PER_S, rate.basis, key=key))
    columns = (b.Column("ceiling", "ceiling"), b.Column("rate", "tokens-per-s", numeric=True))
    twin = b.Table("ceilings-chart", "", columns, tuple(rows))
    panel = b.Panel("", "", "tokens per second", q.TOKENS_PER_S, tuple(series), x_scale="log")
    return b.Chart("ceilings-chart", "Ceilings", "axis", (panel,), twin)


def _facts(result: AnalysisResult) -> Iterator[b.Fact | None]:
    c = result.ceilings
    if c.launch_tokens_per_s is None:
        yield t.fact("launch ceiling", _no_launch(result), term="launch-ceiling")
    host = t.known(c.host_dispatch_ns, q.NS, c.host_dispatch_basis, c.host_dispatch_bound)
    yield t.fact("host dispatch", host, f" a step, {c.host_dispatch_source}", term="host-dispatch")
    if c.bandwidth_tokens_per_s is None:
        yield t.fact("bandwidth ceiling", _no_bandwidth(c), term="bandwidth-ceiling")
    source = f" a step{_source(c.weight_bytes_source)}"
    yield t.fact("weights", t.known(c.weight_bytes, q.BYTES), source, term="weight-bytes")
    cache, counted = t.known(c.kv_bytes, q.BYTES), c.weight_bytes is not None
    if cache is not None:
        yield t.fact("KV cache", cache, f" a step{_source(c.kv_bytes_source)}", term="kv-bytes")
    elif counted:
        yield t.fact("KV cache", "not counted", term="kv-bytes")
    peak = t.known(c.peak_bandwidth_bytes_per_s, q.BYTES_PER_S)
    yield t.fact("peak bandwidth", peak, _source(c.peak_bandwidth_source), term="peak-bandwidth")
    if c.bus_bound:
        if c.bus_tokens_per_s is None:
            yield t.fact("bus ceiling", _no_bus(c), term="bus-ceiling")
        copied = t.known(c.bus_bytes, q.BYTES)
        yield t.fact("copied over the bus", copied, " a step", term="copies")
        link = t.known(c.bus_bandwidth_bytes_per_s, q.BYTES_PER_S)
        way = f" one way{_source(c.bus_bandwidth_source)}" if c.bus_bandwidth_source else ""
        yield t.fact("bus bandwidth", link, way, term="bus-ceiling")


def _source(text: str | None) -> str:
    return f" ({text})" if text else ""


def _no_launch(result: AnalysisResult) -> str:
    why = result.quality.why("ceilings", "host_dispatch", "host", "steps", "rate", "per_token")
    return f"withheld with the host dispatch time: {why}" if why else "host dispatch is not known"


def _no_bandwidth(c: Ceilings) -> str:
    """Why there is no bandwidth ceiling, and what to give for one."""
    if c.weight_bytes is not None:
        return "unknown: no peak bandwidth for this GPU (--peak-bandwidth)"
    if c.weight_bytes_source:
        return f"unknown: {c.weight_bytes_source} (--weight-bytes)"
    given = "record with record_shapes=True, or give --weight-bytes"
    return f"unknown: no shapes were recorded ({given})"


def _no_bus(c: Ceilings) -> str:
    """Why a step that the bus limits has no bus ceiling, and what to give for one."""
    if c.bus_bytes is None:
        return "withheld: the copies' bytes were not recorded"
    if c.bus_bandwidth_bytes_per_s is None:
        return "withheld: no bandwidth of the link to the host is known (--bus-bandwidth)"
    return "withheld: the step copies faster than the bandwidth given (--bus-bandwidth)"


def what_would_help(result: AnalysisResult, context: Context) -> Iterator[b.Block]:
    """The step under one change at a time, modelled."""
    columns = (
        t.words("", "title", "what-if"),
        t.times("step", "step_ns", q.PREDICTED, "period"),
        t.figures("rate", q.TOKENS_PER_S, "tokens_per_s", q.PREDICTED),
        t.figures("against now", q.TIMES, "times_now", q.PREDICTED),
        t.words("limited by", _then_limited_by, "binding-ceiling"),
    )
    yield t.table("what-if", "what if (modelled)", result.what_if, columns, key="id")


def _then_limited_by(item: WhatIf) -> str:
    """What limits the step after the change.

    A ceiling that has moved says nothing where the step stays as it is.
    """
    if item.binding is None or not item.changes:
        return "" if item.binding is None else "no change"
    if (item.binding, item.paced_by) in PACED_OTHERWISE:
        return f"{item.binding}; {_PACED[item.paced_by or '']}"
    return item.binding


def power(result: AnalysisResult, context: Context) -> Iterator[b.Block]:
    """Power and clocks while unprofiled steps ran."""
    p = result.power
    if p is None:
        return
    limit = (
        *t.given(" of ", t.known(p.limit_w, q.WATT)),
        *t.given(" (", t.known(p.limit_share, q.SHARE), ")"),
    )
    clock = t.given(" of ", t.known(p.sm_mhz_max, q.MEGAHERTZ))
    busy = t.known(result.ceilings.busy_share, q.SHARE)
    yield t.facts(
        t.fact("board power", q.Quantity(p.mean_w, q.WATT), *limit, term="power"),
        t.fact("energy", t.known(p.joules_per_token, q.JOULE), " per token"),
        t.fact("SM clock", t.known(p.sm_mhz, q.MEGAHERTZ), *clock),
        t.fact("temperature", t.known(p.temperature_c, q.COUNT), " °C at most"),
        t.fact("GPU busy", busy, " of the step", term="busy"),
        t.fact("samples", q.Quantity(p.samples, q.COUNT)),
    )
