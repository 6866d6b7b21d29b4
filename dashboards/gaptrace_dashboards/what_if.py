"""The what-if model with the reader's own numbers: bits, bandwidth, host speed, captured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dash import dcc, html

from gaptrace import units
from gaptrace.analysis import Analysis
from gaptrace.document.blocks import Bar, Bars, Segment
from gaptrace.measure.ceilings import StepModel
from gaptrace.quantity import NS, PREDICTED, TRACED, Quantity
from gaptrace.render.elements import element
from gaptrace.render.html_blocks import Page, draw
from gaptrace_dashboards.components import absent, component, markup

NS_PER_S = 1e9
NO_MODEL = (
    "The model needs busy time, host dispatch and a step time; one of them is unknown or withheld "
    "(see the notes about this trace)."
)


@dataclass(frozen=True)
class Change:
    """What is asked: bits per weight (None as it is), GPU and host speed as factors, capture."""

    bits: float | None = None
    bandwidth: float = 1.0
    host: float = 1.0
    captured: bool = False

    def words(self, step: StepModel) -> str:
        """What is asked, in front of the answer; empty where nothing is changed."""
        parts = []
        if self.bits is not None and step.bits and self.bits < step.bits:
            parts.append(f"{units.digits(self.bits, 2)}-bit weights")
        if self.bandwidth != 1:
            parts.append(f"{units.digits(self.bandwidth, 2)} times the bandwidth")
        if self.host != 1:
            parts.append(f"a host {units.digits(self.host, 2)} times as fast")
        if self.captured:
            parts.append("one graph")
        return f"With {', '.join(parts)}: " if parts else ""


@dataclass(frozen=True)
class Modelled:
    """A step under a change: host and GPU side, the step, tokens per second; all ns per step."""

    host_ns: float
    busy_ns: float
    step_ns: float
    tokens_per_s: float

    def sentence(self, now: float | None) -> str:
        """The answer of the sliders in words."""
        slower = "host" if self.host_ns > self.busy_ns else "GPU"
        times = f", {units.digits(self.tokens_per_s / now)} times the rate now" if now else ""
        return (
            f"{units.rate(self.tokens_per_s)}, {units.time(self.step_ns)} per step: host "
            f"{units.time(self.host_ns)}, GPU {units.time(self.busy_ns)}; "
            f"the {slower} is the slower side{times}."
        )


def model(step: StepModel, change: Change) -> Modelled:
    """The step under a change: the slower of host and GPU, plus the rest that neither explains.

    Fewer bits shrink the GEMM time in proportion; bandwidth scales all GPU time; capture replaces
    the host's work by one replay and adds the front end's time to every kernel.
    """
    busy = step.busy_ns
    if change.bits is not None and step.bits:
        busy -= step.gemm_ns * (1 - min(change.bits / step.bits, 1.0))
    busy /= change.bandwidth
    host, rest = step.host_ns / change.host, step.rest_ns
    if change.captured and step.replay_ns is not None and step.node_ns is not None:
        host = step.replay_ns / change.host
        busy += step.kernels * step.node_ns
        rest = host
    total = max(host, busy) + rest
    return Modelled(host, busy, total, step.tokens * NS_PER_S / total if total else 0.0)


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
        bandwidth=_number(bandwidth, 1.0) or 1.0,
        host=_number(host, 1.0) or 1.0,
        captured=(clicks or 0) % 2 == 1,
    )
    now, changed = model(step, Change()), model(step, change)
    said = change.words(step) + changed.sentence(analysis.result.headline.tokens_per_s)
    return markup(draw(bars(analysis, now, changed), Page())), said, str(change.captured).lower()


def bars(analysis: Analysis, now: Modelled, changed: Modelled) -> Bars:
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
