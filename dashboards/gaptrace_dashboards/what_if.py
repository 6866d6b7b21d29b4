"""The what-if model with the reader's own numbers: bits, bandwidth, host speed, captured."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from gaptrace import units
from gaptrace.analysis import Analysis
from gaptrace.document.blocks import Bar, Bars, Segment
from gaptrace.measure.what_if import Change, Changed, StepModel
from gaptrace.quantity import NS, PREDICTED, TRACED, Quantity
from gaptrace.render.elements import element
from gaptrace.render.html_blocks import Page, draw
from gaptrace_dashboards.components import absent, component, markup

NO_MODEL = (
    "The model needs busy time, host dispatch and a step time; one of them is unknown or withheld "
    "(see the notes about this trace)."
)


def asked_words(step: StepModel, change: Change) -> str:
    """What is asked, in front of the answer; empty where nothing is changed."""
    parts = []
    if change.bits is not None and step.bits and change.bits < step.bits:
        parts.append(f"{units.digits(change.bits, 2)}-bit weights")
    if change.gpu != 1:
        parts.append(f"{units.digits(change.gpu, 2)} times the bandwidth")
    if change.host != 1:
        parts.append(f"a host {units.digits(change.host, 2)} times as fast")
    if change.captured:
        parts.append("one graph")
    return f"With {', '.join(parts)}: " if parts else ""


def sentence(found: Changed, now: float | None) -> str:
    """The answer of the sliders in words."""
    slower = "host" if found.paced_by == "host" else "GPU"
    times = f", {units.digits(found.tokens_per_s / now)} times the rate now" if now else ""
    return (
        f"{units.rate(found.tokens_per_s)}, {units.time(found.step_ns)} per step: host "
        f"{units.time(found.host_ns)}, GPU {units.time(found.busy_ns)}; "
        f"the {slower} is the slower side{times}."
    )


def what_if(analysis: Analysis) -> list[Any]:
    """The sliders with their first answer; why there are none where a figure is missing."""
    step = analysis.step_model
    if step is None:
        return [absent("What if", NO_MODEL)]
    bits = step.bits
    drawing, said, pressed = answer(analysis, bits, 1, 1, 0)
    can_capture = step.replay_ns is not None
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
                    html.Button("captured into one graph", id="what-if-captured", type="button",
                                n_clicks=0, disabled=not can_capture,
                                **{"aria-pressed": pressed}),
                    className="slider",
                ),
            ],
            className="sliders",
        ),
        html.Div(id="what-if", **{"data-html": drawing}),
        component(
            element(
                "p",
                "The simplest model that says where a change lands: the slower of host and GPU, "
                "plus the rest of the step that neither explains. ",
                element("a", "definition", href="#def-what-if", class_="def"),
                None if can_capture else f" Capture: {_why_no_capture(analysis)}",
                class_="soft",
            )
        ),
    ]  # fmt: skip


def answer(
    analysis: Analysis, bits: Any, bandwidth: Any, host: Any, clicks: int | None
) -> tuple[str, str, str]:
    """The drawing, the sentence, and whether capture is on (`true`, `false`) for what is asked."""
    step = analysis.step_model
    assert step is not None
    change = Change(
        bits=_number(bits, step.bits),
        gpu=_number(bandwidth, 1.0) or 1.0,
        host=_number(host, 1.0) or 1.0,
        captured=(clicks or 0) % 2 == 1,
    )
    now, changed = step.changed(Change()), step.changed(change)
    said = asked_words(step, change) + sentence(changed, analysis.result.headline.tokens_per_s)
    return markup(draw(bars(analysis, now, changed), Page())), said, str(change.captured).lower()


def bars(analysis: Analysis, now: Changed, changed: Changed) -> Bars:
    """Host and GPU time of the step, and the step itself, now and under the change."""
    found, drawn = analysis.result, []
    for label, key, field, basis in (
        ("host", "dispatch", "host_ns", found.ceilings.host_dispatch_basis),
        ("GPU", "busy", "busy_ns", TRACED),
        ("step", "idle", "step_ns", found.headline.basis),
    ):
        for when, side, known in (("now", now, basis), ("changed", changed, PREDICTED)):
            amount = Quantity(getattr(side, field), NS, known)
            part = (Segment(key, label, amount),)
            drawn.append(Bar(f"{label}, {when}", part, amount, hatched=side is changed))
    return Bars("what-if-bars", "", tuple(drawn))


def _why_no_capture(analysis: Analysis) -> str:
    if (analysis.result.captured_share or 0) > 0.5:
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


def _number(value: Any, default: float | None) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return default
