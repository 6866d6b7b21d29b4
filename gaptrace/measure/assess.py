"""The quality of a trace: every reason, the gravest first."""

from __future__ import annotations

from collections.abc import Iterator

from gaptrace.measure.devices import Device
from gaptrace.measure.quality import (
    CALL_FIGURES,
    LIMITED,
    NOTE,
    REFUSED,
    STEP_FIGURES,
    Quality,
    Reason,
    graded,
)
from gaptrace.measure.quality_links import of_links, of_replays
from gaptrace.measure.quality_steps import of_steps
from gaptrace.measure.quality_times import of_times
from gaptrace.measure.steps import Steps
from gaptrace.measure.unread import (
    listed,
    maker,
    unread,
    unread_calls,
    unread_work,
    why_no_gpu_ops,
)
from gaptrace.reading.manifest import Manifest
from gaptrace.results.analysis import Host
from gaptrace.trace import Joined, Trace

# Repairs of the loader after which single figures can still be right.
HARMLESS_REPAIRS = frozenset(
    {
        "not_joined",
        "nan_values",
        "trailing_comma",
        "missing_comma",
        "bad_utf8",
        "control_characters",
        "bad_backslash",
        "log_lines",
        "text_after_end",
        "written_twice",
        "merged_processes",
        "joined_recordings",
    }
)
# Problems of the file after which no link, and so no step, can be trusted.
UNLINKED = frozenset({"ids_collide", "two_writers"})


def assess(
    trace: Trace, device: Device | None, steps: Steps | None, host: Host | None = None
) -> Quality:
    """The quality of a trace as far as the figures of one device and its steps are concerned.

    host: what is known of the host's side, which is all that a recording on a CPU has.
    """
    manifest = Manifest(trace.run)
    reasons = [*_of_file(trace), *_of_recorder(manifest)]
    if device is None:
        reasons.append(_without_gpu(trace, manifest, host))
    else:
        if not any(problem.id in UNLINKED for problem in trace.problems):
            reasons += _of_unread(trace)
        reasons += of_times(trace, device)
        reasons += of_links(trace, device, steps)
    if device is not None and steps is not None:
        reasons += of_steps(steps)
        reasons += of_replays(trace, device, steps)
    return graded(reasons)


def on_cpu(manifest: Manifest) -> bool:
    """Whether a recording says of itself that there was no GPU."""
    return manifest.device.type == "cpu"


def _without_gpu(trace: Trace, manifest: Manifest, host: Host | None) -> Reason:
    words, count = why_no_gpu_ops(trace)
    if not on_cpu(manifest):
        return Reason("no_gpu_ops", words, REFUSED, count, STEP_FIGURES)
    if host is None or not host.ops:
        words = "recorded on a CPU: of this recording only the unprofiled times count"
        return Reason("no_gpu_ops", words, REFUSED, 1, STEP_FIGURES)
    words = "recorded on a CPU: its unprofiled times and what its host does count, no GPU figures"
    return Reason("no_gpu_ops", words, LIMITED, 1, STEP_FIGURES)


def _of_file(trace: Trace) -> Iterator[Reason]:
    for problem in trace.problems:
        level = NOTE if problem.id in HARMLESS_REPAIRS else LIMITED
        hidden = (*STEP_FIGURES, *CALL_FIGURES)
        withheld = hidden if problem.id in UNLINKED else ()
        yield Reason(problem.id, problem.text, level, problem.count, withheld)
    if trace.joined:
        yield _of_join(trace.joined)
    elif trace.py.rows.size:
        yield Reason(
            "python_stacks",
            "Python stacks were recorded, which slows the host further: idle is an upper bound",
        )
    ranks = {lane.rank for lane in trace.lanes if lane.rank}
    if len(ranks) > 1:
        yield Reason(
            "merged_ranks",
            f"the file holds {len(ranks)} ranks; step figures are those of one device",
            count=len(ranks),
        )


def _of_join(found: Joined) -> Reason:
    return Reason(
        "joined",
        f"times are those of {found.times}, where launch calls and GPU work alone were recorded;"
        " ops and functions were laid between its calls"
        f" (the same in {found.matched} of {found.steps} steps)",
        count=len(found.unlike) or 1,
    )


def _of_unread(trace: Trace) -> Iterator[Reason]:
    """Categories of another maker's fork that stand beside the GPU ops that were read."""
    counts = unread(trace)
    calls, work = unread_calls(counts), unread_work(counts)
    if not counts:
        return
    hidden: tuple[str, ...] = ()
    if calls:
        hidden += CALL_FIGURES
    if work:
        hidden += ("busy", "idle", "causes")
    whose = maker(trace, counts) if hidden else None
    yield Reason(
        "unread_categories",
        (
            "events of these categories were not read: ",
            *listed(counts),
            f" (the work of {whose})" if whose else "",
        ),
        LIMITED if hidden else NOTE,
        sum(counts.values()),
        tuple(dict.fromkeys(hidden)),
    )


def _of_recorder(manifest: Manifest) -> Iterator[Reason]:
    """What `collect` noted while it recorded: drifting steps, what it switched off or skipped."""
    for note in manifest.run.notes or ():
        yield Reason("recorder", note)
