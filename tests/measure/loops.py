"""Decode loops drawn by hand: equal steps, one after the other, in round numbers of nanoseconds.

Most steps are made of `eager` ops. One of them takes 5,000 ns from `at`:

    at + 0      op begins            } dispatch
    at + 1,000  launch call begins     } launch, until the kernel starts
    at + 2,000  launch call ends
    at + 2,500  kernel begins          } busy
    at + 3,000  op ends
    at + 4,000  kernel ends            } Python, until the next op
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gaptrace.analysis import analyze
from gaptrace.trace import RunInfo
from tests.builders import Event, kernel, launch, mark, op, trace_of

if TYPE_CHECKING:
    from gaptrace.analysis import Analysis
    from gaptrace.measure.options import Options
    from gaptrace.results.analysis import Finding

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>"
COPY = "void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda>"
EAGER_NS = 5_000

Draw = Callable[[int, int, int], list[Event]]


def eager(
    at: int,
    corr: int,
    name: str = GEMM,
    *,
    dur: int = 1_500,
    inside: str = "aten::mm",
    **rest: Any,
) -> list[Event]:
    """An op that launches one kernel late: see the picture above."""
    return [
        op(inside, at=at, dur=3_000, **rest),
        launch(at=at + 1_000, dur=1_000, corr=corr),
        kernel(name, at=at + 2_500, dur=dur, corr=corr),
    ]


def eagers(at: int, corr: int, *names: str, inside: str = "aten::mm") -> list[Event]:
    """Several eager ops in a row, one each 5,000 ns."""
    found: list[Event] = []
    for index, name in enumerate(names):
        found += eager(at + EAGER_NS * index, corr + index, name, inside=inside)
    return found


def loop(
    draw: Draw,
    *,
    period: int,
    steps: int = 6,
    label: str = "gaptrace.step#{}",
    manifest: Mapping[str, Any] | None = None,
    options: Options | None = None,
    extra: tuple[Event, ...] = (),
) -> Analysis:
    """The analysis of `steps` steps; `draw(at, corr, step)` draws one. The last step is open."""
    events: list[Event] = []
    for step in range(steps):
        at = 1_000 + step * period
        events.append(mark(label.format(step), at=at, dur=period))
        events += draw(at, 1 + 1_000 * step, step)
    trace = trace_of(*events, *extra)
    if manifest is not None:
        trace = dataclasses.replace(trace, run=RunInfo("run", manifest))
    return analyze(trace, options)


def ids(analysis: Analysis) -> list[str]:
    """The ids of the findings, in their order."""
    return [finding.id for finding in analysis.result.findings]


def the(analysis: Analysis, name: str) -> Finding:
    """The one finding with this id."""
    (found,) = [finding for finding in analysis.result.findings if finding.id == name]
    return found
