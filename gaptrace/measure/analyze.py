"""Trace in, Analysis out: the one place that knows the order in which things are derived."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any

from gaptrace.errors import OptionError
from gaptrace.knowledge.devices import Device as KnownDevice
from gaptrace.knowledge.devices import GraphConstants, find_device, graph_constants
from gaptrace.knowledge.engines import engines
from gaptrace.measure.ceilings import (
    FROM_SHAPES,
    MUCH_SILENCE,
    NS,
    Ceilings,
    StepBytes,
    StepModel,
    bus_of,
    ceilings,
    peak_bandwidth,
    step_bytes,
)
from gaptrace.measure.devices import Device, devices, together
from gaptrace.measure.gemm import Products, matrix_products
from gaptrace.measure.given import with_given
from gaptrace.measure.headline import GIVEN_BY_HAND, PROFILED, Headline, headline, host_bound
from gaptrace.measure.hostparts import part_times
from gaptrace.measure.hosttime import host_clock
from gaptrace.measure.kernels import KernelTable, kernel_table
from gaptrace.measure.links import link
from gaptrace.measure.marks import find_marks
from gaptrace.measure.ops import HostDetail, host_detail
from gaptrace.measure.options import Options
from gaptrace.measure.phases import phases
from gaptrace.measure.piecewise import piecewise
from gaptrace.measure.power import power_of
from gaptrace.measure.quality import Quality, assess, rank_of
from gaptrace.measure.result import Analysis, SourceFacts
from gaptrace.measure.steps import Steps, measure_steps
from gaptrace.measure.threads import activities, call_kinds
from gaptrace.reading.manifest import Manifest
from gaptrace.trace import Cat, Trace

NO_KERNELS = KernelTable((), {}, 0.0, 0)
NO_HOST = HostDetail((), (), (), None, None, None)


def measure(trace: Trace, options: Options | None = None) -> Analysis:
    """Every measured figure of a trace: steps, busy, idle, causes, host time and ceilings.

    Numbers that cannot be right are None, with the reason in `Analysis.quality`.

    Raises:
        OptionError: an option names something that is not in the trace.
    """
    options = options or Options()
    manifest = Manifest(trace.run)
    links = link(trace)
    kinds = call_kinds(trace, links)
    threads = activities(trace, links, kinds)
    found = devices(trace, links, threads)
    members = _process(found, options.device)
    device = members[0] if len(members) == 1 else None
    if len(members) > 1:
        device = together(trace, members, threads)
    gpu = _gpu_name(trace, device, manifest)
    known = find_device(gpu) if gpu else None
    peak, peak_source = peak_bandwidth(known, options, manifest)
    products = matrix_products(trace)
    steps = None
    kernels, host = NO_KERNELS, NO_HOST
    if device is not None:
        steps = measure_steps(
            trace,
            device,
            find_marks(trace, device.links, options.step),
            host_clock(trace, links, kinds, threads),
            members=members if len(members) > 1 else (),
            accepted=options.accepted,
            tokens_per_step=options.tokens_per_step,
            manifest_tokens=manifest.tokens,
        )
        kernels = kernel_table(trace, device, steps, threads, products, peak)
        host = host_detail(trace, device, steps, threads)
    quality = assess(trace, device, steps)
    head = headline(steps, quality, manifest)
    head, quality = with_given(head, steps, quality, options.given)
    limits = _ceilings(
        trace, steps, quality, head, kernels, products, options, manifest, known, peak, peak_source
    )
    if quality.withholds("host_dispatch"):
        host = replace(host, cost_per_launch_ns=None)
    source = _facts(trace, steps, manifest, gpu)
    measured = Analysis(
        trace=trace,
        manifest=manifest,
        source=source,
        quality=quality,
        devices=found,
        device=device,
        step_table=steps,
        headline=head,
        kernels=kernels,
        host=host,
        ceilings=limits,
        step_model=_step_model(
            head, kernels, limits, quality, graph_constants(gpu) if gpu else None
        ),
        products=products,
        power=power_of(manifest),
        threads=threads,
        part_times=(
            None
            if device is None or steps is None
            else part_times(trace, source.engine, device, steps)
        ),
        phases=phases(steps, quality),
    )
    return replace(measured, piecewise=piecewise(measured))


def _process(found: tuple[Device, ...], wanted: str | None) -> tuple[Device, ...]:
    """The devices that step figures are for: the one asked for, else all of one process.

    That process is the one with most GPU ops; a device that it never launched on is not its own.
    """
    if wanted is not None:
        return (_choose(found, wanted),)
    ops: dict[int, int] = {}
    for device in found:
        rank = int(device.links.rank[0])
        ops[rank] = ops.get(rank, 0) + device.gpu_ops
    if not ops:
        return ()
    best = max(ops, key=lambda rank: (ops[rank], -list(ops).index(rank)))
    own = tuple(device for device in found if int(device.links.rank[0]) == best)
    launched = tuple(device for device in own if device.launch_calls)
    return launched or (max(own, key=lambda device: device.gpu_ops),)


def _choose(found: tuple[Device, ...], wanted: str) -> Device:
    """The device of that id."""
    for device in found:
        if device.device == wanted:
            return device
    ids = [device.device for device in found]
    close = difflib.get_close_matches(wanted, ids, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise OptionError(
        f"no GPU op ran on device {wanted!r}",
        f"{hint}devices in this trace: {', '.join(ids) or 'none'}",
    )


def _gpu_name(trace: Trace, device: Device | None, manifest: Manifest) -> str | None:
    properties = trace.metadata.get("deviceProperties")
    entries: list[Any] = properties if isinstance(properties, list) else []
    entries = [entry for entry in entries if isinstance(entry, dict)]
    wanted = device.device.rsplit(" ", 1)[-1] if device else ""
    for entry in entries:
        if str(entry.get("id")) == wanted and isinstance(entry.get("name"), str):
            return str(entry["name"])
    if manifest.device.name:
        return manifest.device.name
    names = {entry["name"] for entry in entries if isinstance(entry.get("name"), str)}
    return names.pop() if len(names) == 1 else None


def _facts(trace: Trace, steps: Steps | None, manifest: Manifest, gpu: str | None) -> SourceFacts:
    rank, rank_source = rank_of(trace)
    return SourceFacts(
        path=trace.source.path,
        format=trace.source.format,
        events=trace.source.events,
        gpu=gpu,
        engine=_engine(trace, steps),
        rank=rank,
        rank_source=rank_source,
        mode=manifest.mode,
        model=manifest.run.label,
        torch=manifest.versions.torch,
    )


def _engine(trace: Trace, steps: Steps | None) -> str | None:
    """The serving engine by its process names, else by its Python frames or its step labels."""
    names = " ".join(trace.process_names.values()).lower()
    for engine in engines():
        if engine.process is not None and engine.process in names:
            return engine.id
    frames = [trace.names[int(code)] for code in trace.names_of(Cat.PYTHON)]
    for engine in engines():
        if any(engine.package in frame for frame in frames):
            return engine.id
    labels = steps.marks.label if steps else ()
    return next((label.engine for label in labels if label.engine), None)


def _ceilings(
    trace: Trace,
    steps: Steps | None,
    quality: Quality,
    head: Headline,
    kernels: KernelTable,
    products: Products,
    options: Options,
    manifest: Manifest,
    known: KnownDevice | None,
    peak: float | None,
    peak_source: str | None,
) -> Ceilings:
    dispatch = head.steps["host_dispatch_ns"].median
    source = PROFILED
    if head.rate.issue_ns is not None:
        dispatch, source = head.rate.issue_ns, "unprofiled issue time"
    if quality.withholds("ceilings", "host_dispatch"):
        dispatch = head.rate.issue_ns
    bound = host_bound(head.rate, manifest)
    if bound is not None and dispatch is not None and dispatch > bound[0]:
        dispatch, source = bound[0], f"{bound[1]}, its upper bound"
    hidden = quality.withholds("ceilings")
    moved = step_bytes(trace, None if hidden else steps, products, options, manifest)
    if peak and _partial(moved, kernels.busy_ns_by_class.get("gemm", 0.0), peak, head):
        moved = replace(moved, weight_bytes=None, weights=None, weight_source=PARTIAL)
    return ceilings(
        tokens=head.tokens_per_step or 1,
        host_dispatch_ns=None if hidden else dispatch,
        host_dispatch_source=source,
        measured_tokens_per_s=head.rate.tokens_per_s,
        moved=moved,
        peak_bandwidth=peak,
        peak_source=peak_source,
        busy_share=_busy_share(head),
        busy_ns=head.steps["busy_ns"].median,
        silence_ns=_much_silence(head, dispatch) if source == PROFILED else None,
        bus=bus_of(
            known,
            options,
            exposed_ns=head.bus_ns,
            period_ns=head.steps["period_ns"].median,
            nbytes=head.bus_bytes,
        ),
    )


def _much_silence(head: Headline, dispatch: float | None) -> float | None:
    """Silence that counted as waiting, where it is over 10 % of the host window."""
    times = [ns for ns in head.host_time_ns.values() if ns]
    window = sum(times) * (head.tokens_per_step or 1)
    silence = head.silence_ns
    if not dispatch or not silence or silence <= MUCH_SILENCE * window:
        return None
    return silence


def _busy_share(head: Headline) -> float | None:
    """Share of the step for which the GPU is busy: unprofiled where known, else as profiled."""
    busy, step = head.steps["busy_ns"].median, head.rate.unprofiled_step_ns
    if head.rate.source == GIVEN_BY_HAND and busy is not None and step:
        return min(busy / step, 1.0)
    idle = head.unprofiled_idle_share
    idle = head.idle_share if idle is None or idle < 0 else idle
    return None if idle is None else 1 - idle


# Causes of idle time that a faster host shortens.
FASTER_HOST = ("launch", "dispatch", "python", "runtime", "alloc", "compile", "unattributed")
# Where reading the weights that shapes show takes less than this share of the time in matrix
# products, most products recorded no usable shape.
PARTIAL_SHARE = 0.02
PARTIAL = "shapes cover only part of the matrix products"


def _partial(moved: StepBytes, gemm_ns_per_token: float, peak: float, head: Headline) -> bool:
    if moved.weight_source != FROM_SHAPES or not moved.weight_bytes:
        return False
    reading_ns = moved.weight_bytes * NS / peak
    return reading_ns < PARTIAL_SHARE * gemm_ns_per_token * (head.tokens_per_step or 1)


def _step_model(
    head: Headline,
    kernels: KernelTable,
    limits: Ceilings,
    quality: Quality,
    graph: GraphConstants | None,
) -> StepModel | None:
    busy = head.steps["busy_ns"].median
    period = head.rate.unprofiled_step_ns or head.steps["period_ns"].median
    host = limits.host_dispatch_ns
    if busy is None or period is None or host is None or quality.withholds("ceilings", "kernels"):
        return None
    tokens = head.tokens_per_step or 1
    captured = (head.captured_share or 0) > 0.5
    moved, peak = limits.step_bytes, limits.peak_bandwidth
    weights_ns = moved.weight_bytes * NS / peak if moved.weight_bytes and peak else None
    kinds = head.busy_kind_ns
    return StepModel(
        step_ns=period,
        host_ns=host,
        busy_ns=busy,
        gemm_ns=kernels.busy_ns_by_class.get("gemm", 0.0) * tokens,
        tokens=tokens,
        kernels=head.steps["kernels"].median or 0,
        bits=limits.bits,
        bytes_ns=None
        if weights_ns is None
        else weights_ns + (moved.kv_bytes or 0) * NS / (peak or 1),
        weights_ns=weights_ns,
        replay_ns=graph.replay_ns if graph and not captured else None,
        node_ns=graph.kernel_ns if graph and not captured else None,
        moving_ns=(kinds["exposed_communication"] or 0) + (kinds["exposed_copies"] or 0),
        bus_ns=head.bus_ns or 0.0,
        silence_ns=_much_silence(head, host) or 0.0 if limits.launch_range else 0.0,
        late_ns=_late(head),
    )


def _late(head: Headline) -> float | None:
    """Idle time per step that a faster host could end: late, but neither in a wait nor a sync."""
    parts = [head.idle_by_cause_ns[name] for name in FASTER_HOST]
    if any(ns is None for ns in parts):
        return None
    late, most = sum(ns or 0.0 for ns in parts), head.unprofiled_late_per_token
    return (late if most is None else min(late, most)) * (head.tokens_per_step or 1)
