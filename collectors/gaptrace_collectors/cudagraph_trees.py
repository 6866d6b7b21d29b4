"""What torch's own CUDA-graph trees did: recordings, re-recordings, and what they gave up on."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any

from gaptrace_collectors import dynamo_records
from gaptrace_collectors.failure import Evidence, Failure, first_line, where_of

if TYPE_CHECKING:
    from gaptrace_collectors.device import Device

_LOGGERS = ("cudagraphs_log", "perf_hint_log", "log")
_MODULES = ("torch._inductor.cudagraph_utils", "torch._inductor.cudagraph_trees")

# As torch's cudagraph_trees.py words it, since 2.1.
_OVERWRITTEN = "output of CUDAGraphs that has been overwritten"


class TreeWatch:
    """Watches the trees from the moment it is made; one per recording."""

    def __init__(self, device: Device) -> None:
        import torch._inductor.cudagraph_utils  # noqa: F401  its loggers must exist

        self._device = device
        self._before = self._counters()
        self._first_metric = len(dynamo_records.metrics())
        self._handler = _Keeper()
        self._when_warm: int | None = None
        for name in _MODULES:
            for attribute in _LOGGERS:
                logger = getattr(sys.modules.get(name), attribute, None)
                if isinstance(logger, logging.Logger):
                    logger.addHandler(self._handler)

    def _counters(self) -> Counter[str]:
        counted = dynamo_records.counters("inductor")
        return Counter({key: n for key, n in counted.items() if key.startswith("cudagraph_")})

    def recordings(self) -> int:
        """Graphs that the trees have recorded so far, over all devices."""
        return sum(count for count, _ in _managers())

    def warm(self) -> None:
        """Measuring begins: what is recorded from now on is recorded while measuring."""
        self._when_warm = self.recordings()

    def section(self) -> dict[str, Any]:
        """The `cudagraph_trees` section of run.json; what this torch does not tell is null."""
        now = self._counters()
        since = {key: now[key] - self._before[key] for key in now}
        reasons: Counter[tuple[str, str]] = Counter(self._handler.skips)
        logged = {reason for reason, _ in reasons}
        for metric in dynamo_records.metrics()[self._first_metric :]:
            reason = getattr(metric, "cudagraph_skip_reason", None)
            if reason and dynamo_records.first_line(str(reason)) not in logged:
                reasons[(dynamo_records.first_line(str(reason)), "")] += 1
        skips = since.get("cudagraph_skips", 0)
        if skips and not reasons and not self._device.accelerated:
            reasons[("the step runs on the CPU", "")] = skips  # torch says nothing there
        again = [count for _, count in _managers() if count is not None]
        return {
            "recordings": self.recordings(),
            "recordings_while_measured": (
                None if self._when_warm is None else self.recordings() - self._when_warm
            ),
            "rerecordings": sum(again) if again else None,
            "partitions": since.get("cudagraph_partitions"),
            "skips": skips,
            "skip_reasons": [
                {"reason": reason, "where": where, "count": count}
                for (reason, where), count in reasons.most_common(32)
            ],
            "non_static_inputs": since.get("cudagraph_recorded_non_static_inputs"),
            "warnings": self._handler.warnings[:16],
        }


class _Keeper(logging.Handler):
    """Keeps what torch logs about skipping CUDA graphs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.skips: Counter[tuple[str, str]] = Counter()
        self.warnings: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "skip" in text.lower():
            self.skips[(dynamo_records.first_line(text), _source_line(text))] += 1
        elif text not in self.warnings:
            self.warnings.append(dynamo_records.first_line(text))


def _source_line(text: str) -> str:
    """`file:line` of the user's code, where the message carries a stack."""
    return _where(text).partition(" in ")[0]


def _where(text: str) -> str:
    """`file:line in function: code` of the innermost frame of the user's code in a message."""
    frames = [
        traceback.FrameSummary(name, int(line), function)
        for name, line, function in re.findall(r'File "([^"]+)", line (\d+)(?:, in (\S+))?', text)
    ]
    return where_of(frames)


def overwritten_output(error: BaseException) -> Failure | None:
    """The failure of a step that reads what an earlier step returned; None for any other error.

    Trees reuse the memory of a step's outputs for the next one's. A cache that each step makes
    anew and hands to the next is such an output: the mode cannot work with it.
    """
    text = str(error)
    if not (isinstance(error, RuntimeError) and _OVERWRITTEN in text):
        return None
    where = _where(text)
    return Failure(
        "overwritten_output",
        "a tensor that a step returned is read after the next step began, when CUDA-graph trees"
        f" have overwritten it; it was made at {where or 'a place that torch does not name'}",
        (Evidence(first_line(error, 120), where, text[:2000]),),
    )


def _managers() -> list[tuple[int, int | None]]:
    """Recordings and re-recordings of each device's tree manager."""
    trees: Any = sys.modules.get("torch._inductor.cudagraph_trees")
    local = getattr(trees, "local", None)
    containers = getattr(local, "tree_manager_containers", None) or {}
    counts = []
    for container in containers.values():
        manager = getattr(container, "tree_manager", None)
        if manager is None:
            continue
        again = getattr(manager, "num_rerecord", None)
        count = None
        if again is not None:
            count = sum(sum(functions.values()) for functions in again.values())
        counts.append((_recorded(manager), count))
    return counts


def _recorded(manager: Any) -> int:
    """Graphs in the manager's trees."""
    waiting = [node for roots in getattr(manager, "roots", {}).values() for node in roots]
    count = 0
    while waiting:
        node = waiting.pop()
        count += 1
        children = getattr(node, "children", {})
        waiting += [child for nodes in children.values() for child in nodes]
    return count
