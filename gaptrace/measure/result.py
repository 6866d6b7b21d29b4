"""The result of one analysis: everything a renderer needs, and nothing it has to compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gaptrace.measure.ceilings import Ceilings, StepModel, WhatIf
from gaptrace.measure.devices import Device
from gaptrace.measure.gemm import Products
from gaptrace.measure.headline import Headline
from gaptrace.measure.kernels import KernelTable
from gaptrace.measure.ops import HostDetail
from gaptrace.measure.power import Power
from gaptrace.measure.quality import Quality
from gaptrace.measure.steps import Steps
from gaptrace.measure.threads import Activity
from gaptrace.reading.manifest import Manifest
from gaptrace.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

    from gaptrace.findings.rule import Finding
    from gaptrace.measure.piecewise import Piecewise
    from gaptrace.results.prediction import PredictionResult


@dataclass(frozen=True)
class SourceFacts:
    """Where the numbers come from: file, GPU, engine, rank, mode, model."""

    path: str
    format: str
    events: int
    gpu: str | None
    engine: str | None
    rank: int
    rank_source: str
    mode: str | None
    model: str | None
    torch: str | None


@dataclass(frozen=True, eq=False)
class Analysis:
    """One analysed recording. Frames are built when asked for; arrays are shared, not copied.

    device: the device that step figures are for, None where no GPU op was recorded. step_model:
    None where a figure that it needs is withheld.
    """

    trace: Trace
    manifest: Manifest
    source: SourceFacts
    quality: Quality
    devices: tuple[Device, ...]
    device: Device | None
    step_table: Steps | None
    headline: Headline
    kernels: KernelTable
    host: HostDetail
    ceilings: Ceilings
    step_model: StepModel | None
    products: Products
    power: Power | None
    threads: Mapping[int, Activity]
    findings: tuple[Finding, ...] = ()

    @property
    def path(self) -> str:
        """What to name to get this analysis again: the folder of a cell, else the file."""
        return self.source.path if self.trace.run is None else self.trace.run.path

    @property
    def what_ifs(self) -> tuple[WhatIf, ...]:
        """The step under one change at a time; empty without a step model."""
        return () if self.step_model is None else self.step_model.what_ifs()

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row per step: phase, windows, period, busy, idle by cause, counts, host classes."""
        import pandas as pd

        from gaptrace.measure.frames import step_columns

        return pd.DataFrame(step_columns(self))

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """One row per gap of the device: times, neighbours, launch call, cause parts, step."""
        import pandas as pd

        from gaptrace.measure.frames import gap_columns

        return pd.DataFrame(gap_columns(self))

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The whole analysis as plain data: what `gaptrace analyze --json` prints."""
        from gaptrace.measure.summary import summary

        return summary(self)

    @cached_property
    def prediction(self) -> PredictionResult:
        """What capturing and compiling this step would give, with ranges and sources."""
        from gaptrace.predict import predict

        return predict(self)

    @cached_property
    def piecewise(self) -> Piecewise | None:
        """Pieces and seams of a step that replays several graphs; None where it does not."""
        from gaptrace.measure.piecewise import piecewise

        return piecewise(self)

    @cached_property
    def sentence(self) -> str:
        """The answer in one sentence."""
        from gaptrace.measure.sentence import sentence

        return sentence(self)
