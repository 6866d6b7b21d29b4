"""What the list of runs shows of each recording: plain values, so that no trace has to be kept."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np

from gaptrace.measure.result import Analysis
from gaptrace.runs.run import RunAnalysis, host_dispatch, step_ns
from gaptrace.runs.saved import SavedRun

SPARK_POINTS = 60


@dataclass(frozen=True)
class Row:
    """One recording in the list. Figures are those of the analysis; None is unknown or withheld.

    key: the mode within a run folder, empty for a bare trace. repeats: recordings of this mode.
    idle_share, host_dispatch_ns: unprofiled where the run measured them (host_source). step_ns,
    host_dispatch_ns: per step and per token. spark: step times in ns, at most 60, each the longest
    of its neighbours. note: why there are no figures.
    """

    key: str
    name: str
    sentence: str
    verdict: str
    tokens_per_s: float | None = None
    rate_source: str = ""
    step_ns: float | None = None
    idle_share: float | None = None
    kernels: float | None = None
    launches: float | None = None
    host_dispatch_ns: float | None = None
    host_source: str = ""
    binding: str | None = None
    launch_ceiling: float | None = None
    bandwidth_ceiling: float | None = None
    gpu: str | None = None
    model: str | None = None
    mode: str | None = None
    date: str = ""
    repeats: int = 1
    steps: int = 0
    spark: tuple[int, ...] = ()
    note: str = ""

    def plain(self) -> dict[str, Any]:
        """The row as plain data."""
        return asdict(self)


def rows_of(result: Analysis | RunAnalysis | SavedRun, name: str, modified_ns: int) -> list[Row]:
    """The rows of one analysed place: one for a trace, one for each mode of a run."""
    if isinstance(result, Analysis):
        return [_row("", name, result, 1, modified_ns)]
    if isinstance(result, SavedRun):
        return [_saved(result, name, mode, modified_ns) for mode in result.modes]
    rows = []
    for mode in result.modes:
        shown = result.representative(mode)
        title = f"{result.name} · {mode}"
        if shown is None:
            reason = next((c.reason or c.status for c in result.cells if c.mode == mode), "")
            rows.append(Row(mode, title, "", "failed", mode=mode, note=reason or "not recorded"))
        else:
            rows.append(_row(mode, title, shown, len(result.repeats(mode)), modified_ns))
    return rows


def _row(key: str, name: str, analysis: Analysis, repeats: int, modified_ns: int) -> Row:
    head, source, limits = analysis.headline, analysis.source, analysis.ceilings
    share = head.unprofiled_idle_share
    host, host_source = host_dispatch(analysis)
    return Row(
        key=key,
        name=name,
        sentence=analysis.sentence,
        verdict=analysis.quality.verdict,
        tokens_per_s=head.rate.tokens_per_s,
        rate_source=head.rate.source,
        step_ns=step_ns(analysis),
        idle_share=head.idle_share if share is None else share,
        kernels=head.per_token["kernels"].median,
        launches=head.per_token["launches"].median,
        host_dispatch_ns=None if host is None else host / (head.tokens_per_step or 1),
        host_source=host_source,
        binding=limits.binding,
        launch_ceiling=limits.launch_tokens_per_s,
        bandwidth_ceiling=limits.bandwidth_tokens_per_s,
        gpu=source.gpu,
        model=source.model,
        mode=source.mode,
        date=_date(analysis.manifest.text("created"), modified_ns),
        repeats=repeats,
        steps=head.complete,
        spark=_spark(analysis),
    )


def _saved(saved: SavedRun, name: str, mode: str | None, modified_ns: int) -> Row:
    recordings = saved.modes[mode]
    first = recordings[0]
    time = first.unprofiled_ns if first.unprofiled_ns is not None else first.period_ns
    return Row(
        key=mode or "",
        name=f"{saved.name or name} · {mode}" if mode else saved.name or name,
        sentence="A saved baseline: figures to compare with, no trace behind them.",
        verdict=first.verdict,
        step_ns=time,
        mode=mode,
        date=_date(None, modified_ns),
        repeats=len(recordings),
        steps=first.complete,
        note="saved",
        gpu=first.facts.get("gpu"),
        model=first.facts.get("model"),
    )


def _date(created: str | None, modified_ns: int) -> str:
    if created is not None:
        return created[:16].replace("T", " ")
    if not modified_ns:
        return ""
    return datetime.fromtimestamp(modified_ns / 1e9).strftime("%Y-%m-%d %H:%M")


def _spark(analysis: Analysis) -> tuple[int, ...]:
    steps = analysis.step_table
    if steps is None or steps.rule == "whole trace":
        return ()
    periods = steps.period_ns[steps.has_ops & steps.counted]
    size = max(1, -(-periods.size // SPARK_POINTS))
    return tuple(int(np.max(periods[i : i + size])) for i in range(0, periods.size, size))


def short_path(path: str) -> str:
    """The path with the home folder as `~`."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if home != "/" and path.startswith(home + os.sep) else path
