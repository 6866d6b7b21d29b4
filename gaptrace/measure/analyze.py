"""Trace in, Analysis out: the one place that knows the order in which things are derived."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gaptrace.errors import OptionError
from gaptrace.knowledge.devices import find_device, graph_constants
from gaptrace.knowledge.engines import engines
from gaptrace.measure.assess import assess, on_cpu
from gaptrace.measure.ceilings import Given, ceilings_of
from gaptrace.measure.devices import Device, devices, together
from gaptrace.measure.gemm import matrix_products
from gaptrace.measure.given import with_given
from gaptrace.measure.headline import headline
from gaptrace.measure.hostparts import part_times
from gaptrace.measure.hosttime import HostClock, host_clock
from gaptrace.measure.kernels import kernel_table
from gaptrace.measure.links import Links, link
from gaptrace.measure.marks import find_marks
from gaptrace.measure.ops import host_alone, host_detail
from gaptrace.measure.options import Options
from gaptrace.measure.phases import phases
from gaptrace.measure.piecewise import piecewise
from gaptrace.measure.power import power_of
from gaptrace.measure.result import Analysis
from gaptrace.measure.steps import Steps, measure_steps
from gaptrace.measure.threads import Activity, CallKinds, activities, call_kinds
from gaptrace.measure.unprofiled import PRIOR, predicted_step
from gaptrace.measure.what_if import step_model
from gaptrace.reading.manifest import Manifest
from gaptrace.results import analysis as r
from gaptrace.trace import Cat, Trace

NO_KERNELS = r.Kernels({}, 0.0, (), ())
NO_HOST = r.Host(None, None, None, (), (), ())


@dataclass(frozen=True, eq=False)
class Located:
    """Who launched what, on which device, and in which steps: what every figure stands on.

    device, steps: of the process that is measured; None where no GPU work was recorded.
    """

    links: Links
    kinds: CallKinds
    threads: dict[int, Activity]
    devices: tuple[Device, ...]
    clock: HostClock
    device: Device | None
    steps: Steps | None


def located(trace: Trace, options: Options) -> Located:
    """The launches, devices and steps of a trace.

    Raises:
        OptionError: an option names something that is not in the trace.
    """
    links = link(trace)
    kinds = call_kinds(trace, links)
    threads = activities(trace, links, kinds)
    found = devices(trace, links, threads)
    members = _process(found, options.device)
    device = members[0] if len(members) == 1 else None
    if len(members) > 1:
        device = together(trace, members, threads)
    clock = host_clock(trace, links, kinds, threads)
    steps = None
    if device is not None:
        steps = measure_steps(
            trace,
            device,
            find_marks(trace, device.links, options.step),
            clock,
            members=members if len(members) > 1 else (),
            accepted=options.accepted,
            tokens_per_step=options.tokens_per_step,
            manifest_tokens=Manifest(trace.run).tokens,
        )
    return Located(links, kinds, threads, found, clock, device, steps)


def measure(trace: Trace, options: Options | None = None) -> Analysis:
    """Every measured figure of a trace: steps, busy, idle, causes, host time and ceilings.

    Numbers that cannot be right are None, with the reason in `Analysis.quality`.

    Raises:
        OptionError: an option names something that is not in the trace.
    """
    options = options or Options()
    manifest = Manifest(trace.run)
    place = located(trace, options)
    device, steps, kinds, threads = place.device, place.steps, place.kinds, place.threads
    gpu = _gpu_name(trace, device, manifest)
    given = Given(options, manifest, find_device(gpu) if gpu else None)
    products = matrix_products(trace)
    kernels, host = NO_KERNELS, NO_HOST
    if device is not None and steps is not None:
        kernels = kernel_table(trace, device, steps, threads, products, given.peak_bandwidth()[0])
        host = host_detail(trace, device, steps, threads)
    elif on_cpu(manifest):
        host = host_alone(trace, place.links, kinds, manifest.tokens or 1) or host
    quality = assess(trace, device, steps, host)
    head, quality = with_given(headline(steps, quality, manifest), steps, quality, options.given)
    moved = given.step_bytes(trace, None if quality.withholds("ceilings") else steps, products)
    gemm_ns = kernels.time_ns_by_class.get("gemm", 0.0)
    limits = ceilings_of(head, quality, given, moved, gemm_ns)
    if quality.withholds("host_dispatch"):
        host = msgspec.structs.replace(host, cost_per_launch_ns=None)
    source = _source(trace, steps, manifest, gpu)
    measured = Analysis(
        trace=trace,
        manifest=manifest,
        source=source,
        quality=quality,
        devices=place.devices,
        device=device,
        step_table=steps,
        headline=head,
        kernels=kernels,
        host=host,
        ceilings=limits,
        step_model=(
            None
            if quality.withholds("ceilings", "kernels")
            else step_model(head, limits, gemm_ns, graph_constants(gpu) if gpu else None)
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
        predicted=predicted_step(
            trace, device, steps, kinds, place.clock, quality, head, options.costs or PRIOR
        ),
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
        ops[rank] = ops.get(rank, 0) + device.figures.gpu_ops
    if not ops:
        return ()
    best = max(ops, key=lambda rank: (ops[rank], -list(ops).index(rank)))
    own = tuple(device for device in found if int(device.links.rank[0]) == best)
    launched = tuple(device for device in own if device.figures.launch_calls)
    return launched or (max(own, key=lambda device: device.figures.gpu_ops),)


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


def _source(trace: Trace, steps: Steps | None, manifest: Manifest, gpu: str | None) -> r.Source:
    rank, rank_source = _rank_of(trace)
    return r.Source(
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
        batch=manifest.step.batch,
        folder=None if trace.run is None else trace.run.path,
        name=manifest.run.name,
        json_bytes=trace.source.bytes or None,
        provenance=_provenance(manifest),
    )


def _provenance(manifest: Manifest) -> r.Provenance | None:
    if not manifest:
        return None
    run = manifest.run
    return r.Provenance(run.script, run.host, run.env, bool((run.options or {}).get("redact")))


_RANK_IN_NAME = re.compile(r"(?:rank|TP-?)[-_]?(\d+)", re.IGNORECASE)


def _rank_of(trace: Trace) -> tuple[int, str]:
    """The rank of the process and where it is known from: `distributedInfo`, file name, default."""
    info = trace.metadata.get("distributedInfo")
    if isinstance(info, dict) and isinstance(info.get("rank"), int):
        return info["rank"], "distributedInfo"
    found = _RANK_IN_NAME.search(trace.source.path.rsplit("/", 1)[-1])
    return (int(found[1]), "file name") if found else (0, "default")


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
