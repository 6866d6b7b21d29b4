"""Trace in, Analysis out: measured, predicted, searched for findings, and put into words."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from gaptrace.document.answers import analysis_answer, plain
from gaptrace.findings import find
from gaptrace.measure import result
from gaptrace.measure.analyze import measure
from gaptrace.measure.frames import gap_columns, step_columns
from gaptrace.measure.options import Options
from gaptrace.measure.record import record
from gaptrace.predict.predict import predict
from gaptrace.results.analysis import AnalysisResult
from gaptrace.results.codec import to_data
from gaptrace.trace import Trace

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, kw_only=True)
class Analysis(result.Analysis):
    """One analysed recording: what was measured, and the Result that everything else is made of.

    result: plain data, what `gaptrace analyze --json` prints. Frames are built when asked for.
    """

    result: AnalysisResult

    @property
    def analyses(self) -> dict[str, Analysis]:
        """This analysis by its path, as pictures ask for it."""
        return {self.path: self}

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return self.result.sentence

    @property
    def summary(self) -> dict[str, Any]:
        """The result as plain data, names as in `gaptrace analyze --json`."""
        data: dict[str, Any] = to_data(self.result)
        return data

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row per step: phase, windows, period, busy, idle by cause, counts, host classes."""
        import pandas as pd

        return pd.DataFrame(step_columns(self))

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """One row per gap of the device: times, neighbours, launch call, cause parts, step."""
        import pandas as pd

        return pd.DataFrame(gap_columns(self))


def analyze(trace: Trace, options: Options | None = None) -> Analysis:
    """Every figure of a trace: steps, busy, idle, causes, host time, ceilings and findings.

    Numbers that cannot be right are None, with the reason in `Analysis.result.quality`.

    Raises:
        OptionError: an option names something that is not in the trace.
    """
    own = measured(trace, options)
    prediction = predict(own)
    found = record(
        own,
        capture=prediction.capture,
        compile=prediction.compile,
        square=prediction.square,
        findings=find(own, prediction),
    )
    found = msgspec.structs.replace(found, sentence=plain(analysis_answer(found)))
    figures = {field.name: getattr(own, field.name) for field in fields(result.Analysis)}
    return Analysis(**figures, result=found)


def measured(trace: Trace, options: Options | None = None) -> result.Analysis:
    """Every measured figure of a trace, with the reasons of its quality put into words.

    Raises:
        OptionError: an option names something that is not in the trace.
    """
    found = measure(trace, options)
    reasons = tuple(replace(reason, words=plain(reason.words)) for reason in found.quality.reasons)
    return replace(found, quality=replace(found.quality, reasons=reasons))
