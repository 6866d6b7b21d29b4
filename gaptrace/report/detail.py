"""The tables below the timeline: kernels, ops, host time, compilation, power, provenance."""

from __future__ import annotations

from collections.abc import Mapping

from gaptrace import units
from gaptrace.measure.result import Analysis
from gaptrace.reading.manifest import Manifest
from gaptrace.report import palette
from gaptrace.report.charts import BarRow, Part, bars
from gaptrace.report.context import Context, Section, section, swatch
from gaptrace.report.markup import Markup, element, shortened
from gaptrace.report.privacy import Privacy, personal_facts
from gaptrace.report.tables import Cell, Name, Number, counted, data_table, facts, shared, timed


def kernels_section(analysis: Analysis, context: Context) -> Section | None:
    """Busy time by op class, and every kernel and copy by total time."""
    table, terms = analysis.kernels, context.terms
    if not table.rows:
        return None
    classes = [
        Part(f"o-{name}", value, palette.OP_CLASSES[name].word)
        for name, value in table.busy_ns_by_class.items()
        if value
    ]
    rows: list[list[Cell]] = [
        [
            Name(row.short, shortened(row.name)),
            class_words(row.op_class),
            row.backend,
            counted(row.per_token),
            timed(row.total_ns_per_token, "µs"),
            timed(row.median_ns, "µs"),
            shared(row.share, 1),
            row.op,
            shortened(row.module, 60),
            shared(row.captured, 1),
            Number(row.roofline_share, units.share(row.roofline_share, 1)),
        ]
        for row in table.rows
    ]
    overlap = (
        f" Streams overlap: times sum to {units.time(table.overlap_ns)} per token more than busy."
        if table.overlap_ns > 0.01 * sum(table.busy_ns_by_class.values())
        else ""
    )
    largest = max(table.busy_ns_by_class, key=lambda name: table.busy_ns_by_class[name])
    whole = sum(table.busy_ns_by_class.values())
    return section(
        context,
        "kernels",
        "Kernels",
        element(
            "p",
            f"{units.count(len(rows))} kinds of GPU op; the largest class is "
            f"{palette.OP_CLASSES[largest].word} with "
            f"{units.share(table.busy_ns_by_class[largest], whole)} of the time.{overlap}",
        ),
        element(
            "figure",
            bars([BarRow("GPU busy, one token, by op class", tuple(classes))], "busy by op class"),
        ),
        data_table(
            "kernels and copies of the counted steps",
            [
                terms.link("kernel", "kernel or copy"),
                terms.link("op-class", "class"),
                terms.link("backend"),
                terms.link("kernels-per-token", "per token"),
                "µs per token",
                "median, µs",
                "share",
                "launched by op",
                "module",
                terms.link("captured-share", "captured"),
                terms.link("roofline", "of roofline"),
            ],
            rows,
        ),
        *[
            element("p", f"Of roofline withheld for {shortened(text, 300)}.", class_="soft")
            for text in table.withheld
        ],
    )


def class_words(op_class: str) -> Markup:
    """An op class by colour and word, kept on one line."""
    word = palette.OP_CLASSES[op_class].word
    return element("span", swatch(f"o-{op_class}"), word, class_="one")


def ops_section(analysis: Analysis, context: Context) -> Section | None:
    """CPU ops by self time per token."""
    ops, terms = analysis.host.ops, context.terms
    if not ops:
        return None
    total = sum(row.self_ns for row in ops)
    rows: list[list[Cell]] = [
        [
            Name(row.name, shortened(row.name)),
            counted(row.calls),
            timed(row.self_ns, "µs"),
            shared(row.self_ns, total),
            timed(row.self_ns / row.calls if row.calls else None, "µs"),
            counted(row.launches),
        ]
        for row in ops
    ]
    calls = sum(row.calls for row in ops)
    return section(
        context,
        "ops",
        "Ops",
        element(
            "p",
            f"{units.count(calls)} op calls per token take {units.time(total)} of ",
            terms.link("dispatch", "dispatch"),
            f" on the host; the costliest is {ops[0].name}.",
        ),
        data_table(
            "CPU ops of the counted steps",
            [
                "op",
                "calls per token",
                "self time, µs per token",
                "share",
                "µs per call",
                terms.link("launches-per-token", "launches per token"),
            ],
            rows,
        ),
    )


def host_section(analysis: Analysis, context: Context) -> Section | None:
    """What a launch costs, and the Python functions and modules behind the host's time."""
    host, terms = analysis.host, context.terms
    pairs: list[tuple[Markup | str, Markup | str]] = []
    if host.cost_per_launch_ns is not None:
        pairs.append(
            (terms.link("launch-cost"), f"{units.time(host.cost_per_launch_ns)} of host dispatch")
        )
    if host.launch_call_ns is not None:
        pairs.append(("the launch call itself", f"{units.time(host.launch_call_ns)} (median)"))
    if host.launch_to_start_ns is not None:
        pairs.append(
            (terms.link("launch-to-start"), f"{units.time(host.launch_to_start_ns)} (median)")
        )
    tables = []
    for title, rows_ in (
        ("Python functions between ops", host.python),
        ("modules and regions", host.modules),
    ):
        if rows_:
            total = sum(row.self_ns for row in rows_)
            rows: list[list[Cell]] = [
                [
                    Name(context.privacy.text(row.name), shortened(context.privacy.text(row.name))),
                    timed(row.self_ns, "µs"),
                    shared(row.self_ns, total),
                ]
                for row in rows_
            ]
            tables += [
                element("h3", title.capitalize()),
                data_table(title, ["name", "self time, µs per token", "share"], rows),
            ]
    if not pairs and not tables:
        return None
    if not host.python:
        tables.append(
            element(
                "p",
                "No Python stacks were recorded, so time between ops has no function names "
                "(collect --stacks; it slows the host further).",
                class_="soft",
            )
        )
    return section(context, "host", "Host", facts(pairs) if pairs else None, *tables)


def compile_section(analysis: Analysis, context: Context) -> Section | None:
    """Recompiles and graph breaks as the recorder saw them."""
    manifest, terms = analysis.manifest, context.terms
    seen = manifest.get("compile")
    if not isinstance(seen, Mapping):
        return None
    pairs: list[tuple[Markup | str, Markup | str]] = [
        (
            terms.link("recompile", "recompiles"),
            f"{_counted(manifest, 'recompile_count')} in all, "
            f"{_counted(manifest, 'recompiles_while_measured')} while measured",
        ),
        ("graphs", units.count(manifest.integer("compile", "unique_graphs"))),
        (
            terms.link("generated", "generated kernels"),
            units.count(manifest.integer("compile", "inductor", "generated_kernels")),
        ),
        ("compile time", units.time(_ns(manifest.number("compile", "seconds")))),
    ]
    parts = [facts(pairs)]
    recompiles = seen.get("recompiles")
    if isinstance(recompiles, list) and recompiles:
        rows: list[list[Cell]] = [
            [
                Number(_number(item.get("step")), str(item.get("step", ""))),
                str(item.get("phase", "")),
                shortened(context.privacy.text(str(item.get("function", ""))), 200),
                shortened(context.privacy.text(str(item.get("guard", ""))), 400),
            ]
            for item in recompiles
            if isinstance(item, Mapping)
        ]
        parts.append(
            data_table(
                "recompiles",
                ["step", "phase", "function", terms.link("guard", "guard that failed")],
                rows,
            )
        )
    breaks = seen.get("graph_breaks")
    if isinstance(breaks, list) and breaks:
        parts.append(
            data_table(
                "graph breaks",
                [terms.link("graph-break", "reason"), "place", "count"],
                [
                    [
                        shortened(context.privacy.text(str(item.get("reason", ""))), 400),
                        shortened(context.privacy.text(str(item.get("place", ""))), 200),
                        Number(_number(item.get("count")), str(item.get("count", ""))),
                    ]
                    for item in breaks
                    if isinstance(item, Mapping)
                ],
            )
        )
    return section(context, "compile", "Compilation", *parts)


def _counted(manifest: Manifest, name: str) -> str:
    return units.count(manifest.integer("compile", name))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _ns(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e9


def power_section(analysis: Analysis, context: Context) -> Section | None:
    """Power and clocks while unprofiled steps ran."""
    power = analysis.power
    if power is None:
        return None
    pairs: list[tuple[Markup | str, Markup | str]] = [
        (
            context.terms.link("power", "board power"),
            f"{units.digits(power.mean_w)} W mean"
            + (
                f" of {units.digits(power.limit_w)} W ({units.share(power.share, 1)})"
                if power.limit_w
                else ""
            ),
        )
    ]
    if power.joules_per_token is not None:
        pairs.append(("energy", f"{units.digits(power.joules_per_token)} J per token"))
    if power.sm_mhz is not None:
        most = f" of {units.digits(power.sm_mhz_max, 4)} MHz" if power.sm_mhz_max else ""
        pairs.append(("SM clock", f"{units.digits(power.sm_mhz, 4)} MHz median{most}"))
    if power.temperature_c is not None:
        pairs.append(("temperature", f"{units.digits(power.temperature_c)} °C at most"))
    pairs.append(("samples", units.count(power.samples)))
    return section(context, "power", "Power", facts(pairs))


def provenance_section(analysis: Analysis, context: Context) -> Section:
    """What this file contains, so that it can be sent on with open eyes."""
    source, trace = analysis.source, analysis.trace
    pairs: list[tuple[Markup | str, Markup | str]] = [*personal_facts(analysis, context.privacy)]
    pairs += [
        ("trace", f"{source.format}, {units.count(source.events)} events, "
                  f"{units.size(trace.source.bytes)} of JSON"),
        ("devices", ", ".join(
            f"{device.device}: {units.count(device.gpu_ops)} GPU ops, idle "
            f"{units.share(device.idle_ns, device.span_ns)} of {units.time(device.span_ns)}"
            for device in analysis.devices[:8]
        ) or "none"),
    ]  # fmt: skip
    if source.torch:
        pairs.append(("torch", source.torch))
    if trace.problems:
        pairs.append(
            ("repairs", "; ".join(f"{p.text} ({units.count(p.count)})" for p in trace.problems[:8]))
        )
    closed = (
        "Redacted: host, user, folders, arguments and environment are left out."
        if context.privacy is Privacy.REDACTED
        else "Not redacted: --redact leaves out host, user, folders, arguments and environment."
    )
    return section(
        context,
        "provenance",
        "What this file contains",
        element(
            "p",
            "Names of kernels, ops, modules and Python functions, times, and the facts below. "
            f"Nothing in it loads from or reports to anywhere. {closed}",
        ),
        facts(pairs),
        element("p", _reproduce(analysis, context), class_="mono"),
    )


def _reproduce(analysis: Analysis, context: Context) -> str:
    return f"gaptrace analyze {shortened(context.privacy.path(analysis.path), 200)}"
