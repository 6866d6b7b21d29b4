"""What the list of runs shows of each recording: plain values, so that no trace has to be kept."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from gaptrace.analysis import Analysis
from gaptrace.quantity import NS, TOKENS_PER_S, TRACED, UNPROFILED, Quantity
from gaptrace.results.analysis import Ceilings, Headline
from gaptrace.runs.run import RunAnalysis
from gaptrace.runs.saved import SavedRun

SPARK_POINTS = 60
NOTHING = Headline("", None, None, None, None, "")


@dataclass(frozen=True)
class Row:
    """One recording in the list. headline, ceilings: the Result's.

    key: the mode within a run folder, empty for a bare trace. repeats: recordings of this mode.
    kernels, launches: per token. host: dispatch per token. spark: step times in ns, at most 60,
    each the longest of its neighbours. note: why there are no figures.
    """

    key: str
    name: str
    sentence: str = ""
    verdict: str = ""
    headline: Headline = NOTHING
    ceilings: Ceilings | None = None
    kernels: float | None = None
    launches: float | None = None
    host: Quantity | None = None
    gpu: str | None = None
    model: str | None = None
    mode: str | None = None
    date: str = ""
    repeats: int = 1
    spark: tuple[int, ...] = ()
    note: str = ""

    @property
    def binding(self) -> str | None:
        """Which ceiling limits the step."""
        return None if self.ceilings is None else self.ceilings.binding

    @property
    def rates(self) -> dict[str, Quantity]:
        """Tokens per second as measured and at either ceiling, those that are known."""
        if self.ceilings is None:
            return {}
        found = {
            "measured": (self.headline.tokens_per_s, self.headline.basis),
            "launch": (self.ceilings.launch_tokens_per_s, ""),
            "bandwidth": (self.ceilings.bandwidth_tokens_per_s, ""),
        }
        return {k: Quantity(v, TOKENS_PER_S, basis) for k, (v, basis) in found.items() if v}


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
            rows.append(
                Row(mode, title, verdict="failed", mode=mode, note=reason or "not recorded")
            )
        else:
            rows.append(_row(mode, title, shown, len(result.repeats(mode)), modified_ns))
    return rows


def _row(key: str, name: str, analysis: Analysis, repeats: int, modified_ns: int) -> Row:
    found = analysis.result
    source = found.source
    return Row(
        key=key,
        name=name,
        sentence=found.sentence,
        verdict=found.quality.verdict,
        headline=found.headline,
        ceilings=found.ceilings,
        kernels=found.per_token.kernels,
        launches=found.per_token.launches,
        host=_host(analysis),
        gpu=source.gpu,
        model=source.model,
        mode=source.mode,
        date=_date(analysis.manifest.run.created, modified_ns),
        repeats=repeats,
        spark=_spark(analysis),
    )


def _host(analysis: Analysis) -> Quantity | None:
    """Host dispatch per token: what the launch ceiling stands on, else as profiled."""
    limits, token = analysis.result.ceilings, analysis.result.per_token
    if limits.host_dispatch_ns is None:
        ns = token.host_dispatch_ns
        return None if ns is None else Quantity(ns, NS, TRACED)
    ns = limits.host_dispatch_ns / (analysis.result.steps.tokens_per_step or 1)
    return Quantity(ns, NS, limits.host_dispatch_basis, limits.host_dispatch_bound)


def _saved(saved: SavedRun, name: str, mode: str | None, modified_ns: int) -> Row:
    recordings = saved.modes[mode]
    first = recordings[0]
    unprofiled = first.unprofiled_ns is not None
    time = first.unprofiled_ns if unprofiled else first.period_ns
    return Row(
        key=mode or "",
        name=f"{saved.name or name} · {mode}" if mode else saved.name or name,
        sentence="A saved baseline: figures to compare with, no trace behind them.",
        verdict=first.verdict,
        headline=Headline(UNPROFILED if unprofiled else TRACED, time, None, None, None, ""),
        mode=mode,
        date=_date(None, modified_ns),
        repeats=len(recordings),
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
