"""One picture of a result as an SVG file: the step's timeline, or the bridge of a comparison."""

from __future__ import annotations

from gaptrace.compare.result import Comparison
from gaptrace.errors import OptionError
from gaptrace.measure.result import Analysis
from gaptrace.report.bridge_svg import standalone_bridge_svg
from gaptrace.report.step_svg import standalone_step_svg
from gaptrace.report.views import Budget, views
from gaptrace.runs.run import RunAnalysis


def render_step_svg(analysis: Analysis) -> str:
    """The median step of an analysis: streams, gaps by cause, launches, host thread.

    Raises:
        OptionError: no GPU work was recorded, so there is nothing to draw.
    """
    shown = views(analysis, Budget(characters=0))
    if not shown:
        raise OptionError(
            "there is no GPU work to draw", "write .html or .txt to see what the trace holds"
        )
    return standalone_step_svg(shown[0].timeline, analysis.sentence) + "\n"


def render_run_svg(run: RunAnalysis) -> str:
    """The median step of the first mode that could be drawn, eager before all others.

    Raises:
        OptionError: no mode holds GPU work.
    """
    modes = sorted(run.modes, key=lambda mode: mode != "eager")
    found = [a for mode in modes if (a := run.representative(mode)) is not None and a.device]
    if not found:
        raise OptionError("no mode of this run holds GPU work to draw", "record the run again")
    return render_step_svg(found[0])


def render_bridge_svg(comparison: Comparison) -> str:
    """The bridge of the first pair that has one.

    Raises:
        OptionError: no pair has step times to bridge.
    """
    for pair in comparison.pairs:
        if pair.bridge is not None:
            return standalone_bridge_svg(pair) + "\n"
    raise OptionError("there is no bridge to draw: a side has no GPU work")
