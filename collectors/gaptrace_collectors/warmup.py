"""The steps before anything is measured: how long each took, and what it compiled or captured."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from gaptrace_collectors.hygiene import dynamo_frames
from gaptrace_collectors.plan import IDLE_STEPS

if TYPE_CHECKING:
    from gaptrace_collectors.runners import Runner


class WarmUp:
    """Runs warm-up steps and keeps their history; `step` counts them."""

    def __init__(self, runner: Runner) -> None:
        self.step = 0
        self.history: list[dict[str, Any]] = []
        self._runner = runner
        self._busy_until = 0
        self._compiled = 0

    def run(self, runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One step."""
        compiles = runner.compiles
        before = compiles.count() if compiles else 0
        graphs = runner.captures()
        began = time.perf_counter_ns()
        out = runner(*args, **kwargs)
        took = time.perf_counter_ns() - began
        new = compiles.count() - before if compiles else 0
        self.step += 1
        if compiles:
            compiles.after_step("warm-up", self.step)
        if new:
            self._busy_until = self.step
        entry = {"step": self.step, "host_ns": took, "compiles": new}
        self.history.append(entry | {"captures": runner.captures() - graphs})
        return out

    @property
    def steady(self) -> bool:
        """Whether the last steps went by without compiling."""
        return self.step - self._busy_until >= IDLE_STEPS

    def over(self) -> None:
        """Measuring begins: what is compiled from now on is compiled while measuring."""
        if self._runner.compiles:
            self._compiled = self._runner.compiles.count()
        compiler = self._runner.compiler
        if compiler and compiler.trees:
            compiler.trees.warm()

    def compile_section(self) -> dict[str, Any] | None:
        """What the compiler did, or None where nothing compiled."""
        compiles = self._runner.compiles
        if compiles is None:
            if dynamo_frames() == 0:
                return None
            return {"requested": False, "frames": dynamo_frames()}
        section = compiles.section()
        compiler = self._runner.compiler
        if compiler and compiler.autotune and not compiler.autotune.skipped:
            # Torch counts every candidate that was tried; with a cached graph, those of back then.
            section["inductor"]["generated_kernels"] = None
        note = None
        if not self.steady and self.step > IDLE_STEPS:
            guards = [item["guard"] for item in section["recompiles"]]
            note = f"the recompile counter never stood still in {self.step} warm-up steps" + (
                f"; last failed guard: {guards[-1]}" if guards else ""
            )
        return {
            "requested": True,
            **section,
            "first_call_ns": self.history[0]["host_ns"] if self.history else None,
            "warmup": self.history,
            "steady": self.steady,
            "steady_after": self._busy_until if self.steady else None,
            "recompiles_while_measured": compiles.count() - self._compiled,
            "note": note,
        }

    def startup_section(self, cache: str | None) -> dict[str, Any] | None:
        """From the first call to the last one that compiled or captured anything.

        `cache` is how the compile cache was found: cold, warm, partly warm or none.
        """
        if not self.history:
            return None
        last = max(
            (n for n, entry in enumerate(self.history) if entry["compiles"] or entry["captures"]),
            default=0,
        )
        compiles = self._runner.compiles
        return {
            "ready_ns": sum(entry["host_ns"] for entry in self.history[: last + 1]),
            "ready_after_calls": last + 1,
            "first_call_ns": self.history[0]["host_ns"],
            "compile_seconds": round(compiles.seconds(), 3) if compiles else None,
            "autotune_seconds": compiles.autotune_seconds() if compiles else None,
            "capture_ns": self._runner.capture_ns(),
            "cache": cache,
        }
