"""What was recorded but is not analysed: other accelerators, other writers, lost GPU records.

The categories of events that Kineto and its forks write are those of libkineto's ActivityType.h
and of the copies that Cambricon (MLU) and Enflame (GCU) ship with their plug-ins.
"""

from __future__ import annotations

import re

from gaptrace.knowledge import runtime_calls
from gaptrace.measure.links import names_where
from gaptrace.quantity import COUNT, Quantity, Words
from gaptrace.trace import Cat, Trace

# Categories that say nothing about the GPU or the host's work.
_SILENT = re.compile(
    r"trace|ac2g|fwdbwd|cpu_instant_event|external_correlation|process .*Spans|process Traces"
    r"|process\s*|cuda_event|cuda_profiler_range",
    re.IGNORECASE,
)
# Where the words of a category, process or call come from. The first that matches names it.
_MAKERS = (
    (re.compile(r"ascend|\bnpu\b|async_npu|\bnpu::|aclnn|\bcann\b", re.I), "an Ascend NPU"),
    (re.compile(r"\bmlu|mlu_|cambricon|\bcnnl|\bcnrt", re.I), "a Cambricon MLU"),
    (re.compile(r"\bgcu|gcu_|enflame|\btops(?:Launch|Memcpy|Stream)", re.I), "an Enflame GCU"),
    (re.compile(r"mtia", re.I), "Meta's MTIA"),
    (re.compile(r"\bhpu|hpu_op|gaudi|habana|synapse", re.I), "a Gaudi HPU"),
    (re.compile(r"\bmusa|musa_|moore ?threads", re.I), "a Moore Threads GPU (MUSA)"),
    (re.compile(r"\bxpu_scope|\bxpu_sync", re.I), "an Intel XPU"),
    (re.compile(r"spyre|\baiu\b", re.I), "an IBM Spyre card"),
    (re.compile(r"\btpu\b|xla::", re.I), "a TPU"),
    (re.compile(r"neuron", re.I), "AWS Neuron"),
)
# Categories of the device's own work, and of calls, that only other makers' forks write.
DEVICE_WORK = re.compile(r".*(?:memcpy|memset|kernel|ccp_events|hpu_op)|process .*", re.I)
_CALLS = re.compile(r".*_(?:runtime|driver)$", re.I)
# torch.autograd's own exporter, in a build without Kineto, draws on these two processes.
_AUTOGRAD = "CUDA functions"


def unread(trace: Trace) -> dict[str, int]:
    """Categories whose events are not analysed, and how many each has, the largest first."""
    counts = {
        name: number for name, number in trace.source.unread.items() if not _SILENT.fullmatch(name)
    }
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _named(trace: Trace, category: str) -> str:
    """`process 2080` with the name of that process, where the file tells it."""
    name = trace.process_names.get(category.removeprefix("process "))
    return f"{category} ({name})" if name and category.startswith("process ") else category


def unread_calls(counts: dict[str, int]) -> bool:
    """Whether runtime or driver calls are among what was not read."""
    return any(_CALLS.fullmatch(name) for name in counts)


def unread_work(counts: dict[str, int]) -> bool:
    """Whether work of a device is among what was not read."""
    return any(DEVICE_WORK.fullmatch(name) and not _CALLS.fullmatch(name) for name in counts)


def listed(counts: dict[str, int], most: int = 4) -> tuple[str | Quantity, ...]:
    """The categories and their counts."""
    parts: list[str | Quantity] = []
    for name, number in list(counts.items())[:most]:
        parts += [f"{', ' if parts else ''}{name} (", Quantity(number, COUNT), ")"]
    rest = len(counts) - most
    return (*parts, f" and {rest} more") if rest > 0 else tuple(parts)


def maker(trace: Trace, counts: dict[str, int]) -> str | None:
    """Whose accelerator the trace is of, where its words give it away."""
    words = [*counts, *trace.process_names.values()]
    for cat in (Cat.CPU_OP, Cat.RUNTIME):
        words += [trace.names[int(code)] for code in trace.names_of(cat)]
    if any(entry for entry in words if _AUTOGRAD in entry):
        return None
    other = trace.names_of(Cat.OTHER)
    words += [trace.names[int(code)] for code in other]
    for pattern, name in _MAKERS:
        if any(pattern.search(word) for word in words):
            return name
    return None


def why_no_gpu_ops(trace: Trace) -> tuple[Words, int]:
    """Why a trace holds no GPU op, with what to do about it, and how many events say so."""
    counts = unread(trace)
    total = sum(counts.values())
    if any(_AUTOGRAD in name for name in counts):
        return (
            (
                "the GPU work was written by the exporter of a torch without Kineto "
                "(processes `CPU functions` and `CUDA functions`): ",
                *listed(counts),
                " were not read; record with torch.profiler in a build with Kineto",
            ),
            total,
        )
    found = maker(trace, counts)
    if found is not None:
        what = (": ", *listed(counts), " were not read") if counts else ()
        return (
            (
                f"the work of {found} was recorded",
                *what,
                "; gaptrace reads the GPU work that Kineto writes (kernel, gpu_memcpy, gpu_memset)",
            ),
            total,
        )
    calls = trace.rows_of(Cat.RUNTIME)
    launches = int(names_where(trace, trace.name[calls], runtime_calls.is_launch_family).sum())
    if launches:
        return (
            (
                Quantity(launches, COUNT),
                " launch calls were recorded but no GPU op: CUDA activity was on, and the GPU "
                "records were lost or dropped (buffers not flushed, a second profiler on the GPU, "
                "or no permission for its counters); end the recording after a device "
                "synchronize, with nothing else attached",
            ),
            launches,
        )
    if counts:
        return (
            (
                "no kernel, copy or memset was recorded; of the rest ",
                *listed(counts),
                " were not read",
            ),
            total,
        )
    return "no kernel, copy or memset was recorded: profile with ProfilerActivity.CUDA", 1
