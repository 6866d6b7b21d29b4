"""What lies behind each tab of a run's page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dash import dcc, html

from gaptrace import units
from gaptrace.measure.result import Analysis
from gaptrace.predict import Prediction
from gaptrace.report import palette
from gaptrace.report.charts import BarRow, Part, bars
from gaptrace.report.context import Context, Section
from gaptrace.report.detail import (
    compile_section,
    host_section,
    power_section,
    provenance_section,
)
from gaptrace.report.markup import element
from gaptrace_dashboards.figures import chart, what_if_figure
from gaptrace_dashboards.fragments import fragment, meanings, sections
from gaptrace_dashboards.fusion_tab import fusion_tab
from gaptrace_dashboards.grids import Column, counted, filled, grid
from gaptrace_dashboards.what_if import Change, asked_words, model, sentence


def tab_content(
    analysis: Analysis, tab: str, prediction: Callable[[], Prediction | None]
) -> list[Any]:
    """The components of one tab of a recording; the prediction is made only where it is shown."""
    return fusion_tab(prediction()) if tab == "fusion" else TAB_PARTS[tab](analysis)


def _kernels(analysis: Analysis) -> list[Any]:
    rows = analysis.kernels.rows
    if not rows:
        return [_absent("kernels", "No kernel of a counted step to list.")]
    classes = [
        Part(f"o-{name}", value, palette.OP_CLASSES[name].word)
        for name, value in analysis.kernels.busy_ns_by_class.items()
        if value
    ]
    total = sum(row.total_ns_per_token for row in rows)
    label = "busy time of one token by op class"
    columns = [
        Column("name", "kernel or copy", "name", 300, grow=2),
        Column("op_class", "class", "text", 160),
        Column("backend", "backend", "text", 100),
        Column("per_token", "per token", "number", 95),
        Column("total", "µs per token", "number", 125),
        Column("median", "median, µs", "number", 115),
        Column("share", "share", "number", 80),
        Column("op", "launched by op", "text", 150, grow=1),
        Column("module", "module", "text", 140),
        Column("captured", "captured", "number", 90),
        Column("roofline", "of roofline", "number", 100),
    ]
    data = [
        {
            "id": str(place),
            "name": row.short,
            "full": row.name,
            "op_class": palette.OP_CLASSES[row.op_class].word,
            "backend": row.backend,
            "per_token": counted(row.per_token),
            "total": _us(row.total_ns_per_token),
            "median": _us(row.median_ns),
            "share": (row.share, units.share(row.share, 1)),
            "op": row.op,
            "module": row.module,
            "captured": (row.captured, units.share(row.captured, 1)),
            "roofline": (row.roofline_share, units.share(row.roofline_share, 1)),
        }
        for place, row in enumerate(rows)
    ]
    said = (
        f"{len(rows)} kinds of kernels and copies take {units.time(total)} per token; the longest, "
        f"{units.middle_elided(rows[0].short, 60)}, takes {units.share(rows[0].share, 1)}."
    )
    return [
        html.P(said),
        fragment(element("figure", bars([BarRow("GPU busy, one token", tuple(classes))], label))),
        *_table("kernels-grid", columns, data, "kernels and copies"),
        *[html.P(f"Of roofline withheld for {text}.") for text in analysis.kernels.withheld],
        meanings(
            ("kernel", "kernel"),
            ("op-class", "class"),
            ("backend", "backend"),
            ("kernels-per-token", "per token"),
            ("captured-share", "captured"),
            ("roofline", "of roofline"),
        ),
        *_by_op(analysis),
    ]


def _by_op(analysis: Analysis) -> list[Any]:
    rows = analysis.kernels.by_op
    if not rows:
        return []
    columns = [
        Column("name", "launched by op", "name", 300, grow=1),
        Column("per_token", "GPU ops per token", "number", 170),
        Column("total", "µs per token", "number", 130),
        Column("share", "share", "number", 90),
    ]
    data = [
        {
            "id": str(place),
            "name": row.name,
            "full": row.name,
            "per_token": counted(row.per_token),
            "total": _us(row.total_ns_per_token),
            "share": (row.share, units.share(row.share, 1)),
        }
        for place, row in enumerate(rows)
    ]
    return [html.H3("The same time by launching op"), *_table("by-op-grid", columns, data, "by op")]


def _ops(analysis: Analysis) -> list[Any]:
    ops = analysis.host.ops
    if not ops:
        return [_absent("CPU ops", "No CPU op was recorded (activities=[ProfilerActivity.CPU]).")]
    total = sum(row.self_ns for row in ops)
    columns = [
        Column("name", "op", "name", 300, grow=1),
        Column("calls", "calls per token", "number", 130),
        Column("self", "self, µs per token", "number", 150),
        Column("share", "share", "number", 90),
        Column("each", "µs per call", "number", 110),
        Column("launches", "launches per token", "number", 150),
    ]
    data = [
        {
            "id": str(place),
            "name": row.name,
            "full": row.name,
            "calls": counted(row.calls),
            "self": _us(row.self_ns),
            "share": (row.self_ns / total if total else None, units.share(row.self_ns, total)),
            "each": _us(row.self_ns / row.calls if row.calls else None),
            "launches": counted(row.launches),
        }
        for place, row in enumerate(ops)
    ]
    calls = sum(row.calls for row in ops)
    said = (
        f"{units.count(calls)} op calls per token take {units.time(total)} of the host; the "
        f"costliest is {ops[0].name}."
    )
    return [
        html.P(said),
        *_table("ops-grid", columns, data, "CPU ops"),
        meanings(("dispatch", "self time"), ("launches-per-token", "launches per token")),
    ]


def _table(
    id_: str, columns: Sequence[Column], rows: Sequence[dict[str, Any]], label: str
) -> list[Any]:
    return [
        html.Div(
            [
                html.Label(f"filter {label}", htmlFor=f"{id_}-filter", className="hide"),
                dcc.Input(id=f"{id_}-filter", type="search", placeholder="filter",
                          className="filter grid-filter"),
                html.Button("Copy CSV", type="button", className="csv", **{"data-grid": id_}),
            ],
            className="tools",
        ),
        grid(id_, filled(columns, rows), rows, height=min(54 + 30 * len(rows), 560)),
    ]  # fmt: skip


def _us(ns: float | None) -> tuple[float | None, str]:
    return ns, units.time_value(ns, "µs")


def _report_tab(
    make: Callable[[Analysis, Context], Section | None], what: str, missing: str
) -> Callable[[Analysis], list[Any]]:
    def content(analysis: Analysis) -> list[Any]:
        part = make(analysis, Context())
        return [_absent(what, missing)] if part is None else [sections(part)]

    return content


def _absent(what: str, text: str) -> html.Div:
    return html.Div([html.H2(what.capitalize()), html.P(text)], className="state small")


def _what_if(analysis: Analysis) -> list[Any]:
    step = analysis.step_model
    if step is None:
        return [
            _absent(
                "what if",
                "The model needs busy time, host dispatch and a step time; one of them is unknown "
                "or withheld (see the notes about this trace).",
            )
        ]
    bits = step.bits
    now = model(step, Change())
    can_capture = step.replay_ns is not None
    said = sentence(step, analysis.headline.rate.tokens_per_s, now)
    return [
        html.H2("What if", id="h-what-if"),
        html.P(said, id="what-if-said", role="status", className="lead"),
        html.Div(
            [
                _slider("bits", f"bits per weight (now {units.digits(bits, 2)})" if bits else
                        "bits per weight (unknown: no weight size in the run)",
                        2, bits or 16, bits or 16, disabled=not bits or not step.gemm_ns),
                _slider("bandwidth", "memory bandwidth, times now", 0.5, 4, 1),
                _slider("host", "host speed, times now", 0.5, 8, 1),
                html.Div(
                    html.Button(
                        "captured into one graph",
                        id="what-if-captured",
                        type="button",
                        n_clicks=0,
                        disabled=not can_capture,
                        **{"aria-pressed": "false"},
                    ),
                    className="slider",
                ),
            ],
            className="sliders",
        ),
        html.Div(chart("what-if", what_if_figure(now, now), said), role="img",
                 **{"aria-label": "host, GPU and step time now and changed"}),
        html.P(
            [
                "The simplest model that says where a change lands: the slower of host and GPU, "
                "plus the rest of the step that neither explains. ",
                html.A("definition", href="/glossary#def-what-if", className="def"),
                "" if can_capture else " Capture: " + _why_no_capture(analysis),
            ],
            className="soft",
        ),
    ]  # fmt: skip


def _why_no_capture(analysis: Analysis) -> str:
    if (analysis.headline.captured_share or 0) > 0.5:
        return "this recording is captured already."
    return "no replay constants are known for this GPU."


def _slider(
    name: str, label: str, low: float, high: float, value: float, *, disabled: bool = False
) -> html.Div:
    return html.Div(
        [
            html.Label([label, html.Output(f"{value:g}", className="slid")],
                       htmlFor=f"what-if-{name}"),
            dcc.Input(
                id=f"what-if-{name}", type="range", min=low, max=high, value=value,
                step=0.5 if name == "bits" else 0.1, disabled=disabled, debounce=False,
            ),
        ],
        className="slider",
    )  # fmt: skip


def what_if_answer(
    analysis: Analysis, bits: Any, bandwidth: Any, host: Any, clicks: int | None
) -> tuple[Any, str, str]:
    """The figure, the sentence, and whether capture is on (`true`, `false`) for what is asked."""
    step = analysis.step_model
    assert step is not None
    change = Change(
        bits=_number(bits, step.bits),
        bandwidth=_number(bandwidth, 1.0) or 1.0,
        host=_number(host, 1.0) or 1.0,
        captured=(clicks or 0) % 2 == 1,
    )
    changed = model(step, change)
    said = asked_words(change, step) + sentence(step, analysis.headline.rate.tokens_per_s, changed)
    return what_if_figure(model(step, Change()), changed), said, str(change.captured).lower()


def _number(value: Any, default: float | None) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return default


TAB_PARTS: Mapping[str, Callable[[Analysis], list[Any]]] = {
    "kernels": _kernels,
    "ops": _ops,
    "host": _report_tab(host_section, "host", "No host activity of a counted step to list."),
    "ceilings": _what_if,
    "compile": _report_tab(
        compile_section,
        "compilation",
        "The run folder's manifest says nothing about compilation. `gaptrace collect` records "
        "recompiles with the guard that failed and graph breaks with their reason; a bare trace "
        "has neither.",
    ),
    "power": _report_tab(
        power_section,
        "power",
        "No power or clock samples. `gaptrace collect` takes them while unprofiled steps run, "
        "where NVML is there.",
    ),
    "provenance": _report_tab(provenance_section, "provenance", "Nothing is known."),
}
