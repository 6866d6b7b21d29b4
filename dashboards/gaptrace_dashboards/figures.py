"""Charts as pure functions from figures to plotly: at most 2,000 marks, no gradient, no upload."""

from __future__ import annotations

import plotly.graph_objects as go
from dash import dcc

from gaptrace import units
from gaptrace_dashboards.what_if import Modelled

# Plotly 7 has a button that can send a chart to a server; no chart of ours has it.
CONFIG = {
    "showSendToCloud": False,
    "displaylogo": False,
    "displayModeBar": False,
    "responsive": True,
}
# Axis and text colours come from the page's style sheet, which knows light and dark.
_FONT = 'system-ui, -apple-system, "Segoe UI", sans-serif'


def chart(id_: str, figure: go.Figure, label: str, css: str = "") -> dcc.Graph:
    """A figure on a page, with the sentence it is for."""
    figure.update_layout(meta={"label": label})
    return dcc.Graph(id=id_, figure=figure, config=CONFIG, className=f"plot {css}".strip())


def what_if_figure(now: Modelled, changed: Modelled) -> go.Figure:
    """Host and GPU time of the step now and under the change, the step as a line behind them."""
    labels = ["now", "changed"]
    figure = go.Figure()
    for title, colour, values in (
        ("host", "#E69F00", [now.host_ns, changed.host_ns]),
        ("GPU", "#2f7f79", [now.busy_ns, changed.busy_ns]),
        ("step", "#8f98a3", [now.step_ns, changed.step_ns]),
    ):
        figure.add_trace(
            go.Bar(
                y=labels,
                x=[value / 1e6 for value in values],
                name=title,
                orientation="h",
                marker={
                    "color": colour,
                    # What is modelled is hatched, what is measured is solid.
                    "pattern": {"shape": ["", "/"], "fillmode": "overlay", "size": 6},
                },
                text=[units.time(value) for value in values],
                textposition="outside",
                cliponaxis=False,
                hoverinfo="skip",
            )
        )
    _layout(figure, height=230)
    figure.update_layout(barmode="group", bargap=0.25, transition={"duration": 0})
    figure.update_xaxes(title="ms per step", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", ticklabelstandoff=8)
    return figure


def _layout(figure: go.Figure, height: int) -> None:
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 8, "r": 56, "t": 36, "b": 52},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": _FONT, "size": 12},
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "itemclick": False,
                "itemdoubleclick": False},
        dragmode=False,
        hoverlabel={"font": {"family": _FONT, "size": 12}},
    )  # fmt: skip
    figure.update_xaxes(fixedrange=True, zeroline=False, automargin=True, gridwidth=1)
    figure.update_yaxes(fixedrange=True, automargin=True, showgrid=False, zeroline=False)
