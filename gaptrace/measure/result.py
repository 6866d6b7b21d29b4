"""One measured recording: the trace, its arrays, and the figures derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gaptrace.measure.ceilings import Ceilings, StepModel, WhatIf
from gaptrace.measure.devices import Device
from gaptrace.measure.gapwork import NO_WORK, GapWork, gap_work
from gaptrace.measure.gemm import Products
from gaptrace.measure.headline import Headline
from gaptrace.measure.hostparts import PartTimes
from gaptrace.measure.kernels import KernelTable
from gaptrace.measure.ops import HostDetail
from gaptrace.measure.phases import PhaseFigures
from gaptrace.measure.power import Power
from gaptrace.measure.quality import Quality
from gaptrace.measure.steps import Steps
from gaptrace.measure.threads import Activity
from gaptrace.reading.manifest import Manifest
from gaptrace.results.analysis import Piecewise, PredictedStep
from gaptrace.trace import Trace


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
    """One measured recording: the trace, what was derived from it, arrays shared and not copied.

    device: the device that step figures are for, None where no GPU op was recorded. step_model:
    None where a figure that it needs is withheld. piecewise: None where the step replays at most
    one graph. predicted: the step without the profiler.
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
    piecewise: Piecewise | None = None
    part_times: PartTimes | None = None
    phases: tuple[PhaseFigures, ...] = ()
    predicted: PredictedStep = field(default_factory=PredictedStep)

    @cached_property
    def gap_work(self) -> GapWork:
        """What the launching threads did in the device's gaps."""
        return (
            NO_WORK if self.device is None else gap_work(self.trace, self.device.gaps, self.threads)
        )

    @property
    def path(self) -> str:
        """What to name to get this analysis again: the folder of a cell, else the file."""
        return self.source.path if self.trace.run is None else self.trace.run.path

    @property
    def what_ifs(self) -> tuple[WhatIf, ...]:
        """The step under one change at a time; empty without a step model."""
        return () if self.step_model is None else self.step_model.what_ifs()
