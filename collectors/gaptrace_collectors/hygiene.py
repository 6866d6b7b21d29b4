"""What the compiler did: compiles per step, recompiles with their guard, graph breaks, counts.

Everything is read from Dynamo's and Inductor's own records. They are private and have changed
between versions, so each is optional: what is missing is null.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import Any

from gaptrace_collectors import dynamo_records
from gaptrace_collectors.inductor_cache import CacheWatch

RECOMPILE_LIMIT = 128
_METRICS_KEPT = 2048
_AUTOTUNE_TIMER = re.compile(
    r"_template_(autotuning|precompiling)$"
    r"|CachingAutotuner\.(benchmark_all_configs|coordinate_descent_tuning|combo_)"
)
_GUARD_CODE = re.compile(r"\s{2,}#.*")


def dynamo_frames() -> int:
    """Frames that Dynamo has compiled in this process; 0 where it was never imported."""
    return int(dynamo_records.counters("frames").get("total", 0))


class Compiles:
    """Watches compilation from the moment it is made; one per recording."""

    def __init__(self) -> None:
        import torch._dynamo
        import torch._dynamo.utils as utils

        self._utils: Any = utils
        config: Any = torch._dynamo.config
        # The default limit of 8 falls back to eager silently: a step that recompiles on every
        # token would then look steady after eight of them.
        for name in ("recompile_limit", "cache_size_limit"):
            if hasattr(config, name):
                setattr(config, name, max(getattr(config, name), RECOMPILE_LIMIT))
                break
        limit = getattr(utils, "set_compilation_metrics_limit", None)
        if limit is not None:
            limit(_METRICS_KEPT)
        self._reset_inductor()
        self.cache = CacheWatch()
        self._first_metric = len(dynamo_records.metrics())
        self._first_frames = dynamo_frames()
        self._steps: list[tuple[str, int, int]] = []  # phase, step, metrics seen after it

    def _reset_inductor(self) -> None:
        try:
            import torch._inductor.metrics as metrics
        except ImportError:
            return
        metrics.reset()

    def count(self) -> int:
        """Compiled frames since the recording began."""
        return dynamo_frames() - self._first_frames

    def after_step(self, phase: str, step: int) -> None:
        """Remember which compiles belong to the step that just ended."""
        self._steps.append((phase, step, len(dynamo_records.metrics())))

    def _step_of(self, metric: int) -> tuple[str, int | None]:
        for phase, step, seen in self._steps:
            if metric < seen:
                return phase, step
        return "later", None

    def section(self) -> dict[str, Any]:
        """The part of run.json's `compile` section that comes from the compiler."""
        metrics = dynamo_records.metrics()
        counters: Any = self._utils.counters
        recompiles = []
        for number in range(self._first_metric, len(metrics)):
            metric = metrics[number]
            guard = getattr(metric, "recompile_reason", None)
            if not guard:
                continue
            phase, step = self._step_of(number)
            recompiles.append(
                {
                    "step": step,
                    "phase": phase,
                    "function": metric.co_name,
                    "place": f"{metric.co_filename}:{metric.co_firstlineno}",
                    "guard": _guard_text(guard),
                    "seconds": _seconds(metric),
                }
            )
        known = metrics[self._first_metric :]
        seconds = [_seconds(metric) for metric in known]
        return {
            "seconds": round(sum(s for s in seconds if s is not None), 3) if known else None,
            "frames": self.count(),
            "unique_graphs": counters["stats"].get("unique_graphs"),
            "recompiles": recompiles[:64],
            "recompile_count": len(recompiles),
            "graph_breaks": self._graph_breaks(),
            "inductor": _inductor_counts(counters),
            "cache": self.cache.section(),
        }

    def seconds(self) -> float:
        """Compile seconds so far, by Dynamo's own account."""
        each = (_seconds(metric) for metric in dynamo_records.metrics()[self._first_metric :])
        return sum(value for value in each if value is not None)

    def autotune_seconds(self) -> float | None:
        """Seconds spent on trying candidates so far, by Dynamo's own account; None if none were.

        Templates for matrix products are tried while compiling, configurations of the other
        kernels at their first call.
        """
        timers = getattr(self._utils, "compilation_time_metrics", {})
        each = [sum(times) for name, times in timers.items() if _AUTOTUNE_TIMER.search(name)]
        return round(sum(each), 3) if each else None

    def _graph_breaks(self) -> list[dict[str, Any]]:
        seen: Counter[tuple[str, str]] = Counter()
        for item in getattr(self._utils, "graph_break_reasons", []):
            stack = list(getattr(item, "user_stack", ()))
            source_line = f"{stack[-1].filename}:{stack[-1].lineno}" if stack else ""
            seen[(dynamo_records.first_line(str(item.reason)), source_line)] += 1
        if not seen:
            for reason, times in self._utils.counters.get("graph_break", {}).items():
                seen[(dynamo_records.first_line(str(reason)), "")] += int(times)
        return [
            {"reason": reason, "place": source_line, "count": times}
            for (reason, source_line), times in seen.most_common(64)
        ]


def _guard_text(reason: str) -> str:
    """The guard that failed, without the stack that torch prints beneath it."""
    return _GUARD_CODE.sub("", reason.strip().splitlines()[0]).strip()


def _seconds(metric: Any) -> float | None:
    value = getattr(metric, "entire_frame_compile_time_s", None)
    return None if value is None else round(float(value), 4)


def _inductor_counts(counters: Any) -> dict[str, Any]:
    metrics = sys.modules.get("torch._inductor.metrics")
    inductor = counters.get("inductor", {})
    return {
        "nodes_before_fusion": getattr(metrics, "ir_nodes_pre_fusion", None),
        "generated_kernels": getattr(metrics, "generated_kernel_count", None),
        "cache_hits": inductor.get("fxgraph_cache_hit", 0),
        "cache_misses": inductor.get("fxgraph_cache_miss", 0),
        "extern_calls": inductor.get("extern_calls"),
    }
