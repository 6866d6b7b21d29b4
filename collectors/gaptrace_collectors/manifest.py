"""run.json: the sections of one recording put together. The schema is in collectors/README.md."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from gaptrace_collectors import RUN_SCHEMA, facts, timing
from gaptrace_collectors.bytes_read import read_section
from gaptrace_collectors.cell_info import script_folder
from gaptrace_collectors.points import Point
from gaptrace_collectors.steadiness import launch_sequence
from gaptrace_collectors.tensors import byte_section

if TYPE_CHECKING:
    from gaptrace_collectors.cell_info import CellInfo, StepFacts
    from gaptrace_collectors.device import Device
    from gaptrace_collectors.failure import Failure
    from gaptrace_collectors.measurement import Measurement
    from gaptrace_collectors.recorder import Recorder
    from gaptrace_collectors.targets import Target


_DRIFT = 1.05
_UNMEASURED = {"copy_bandwidth_bytes_per_s": None, "empty_launch_ns": None}


class Outcome(NamedTuple):
    """How a recording ended: the `status` of run.json, why it failed, and remarks."""

    status: str
    failure: Failure | None
    notes: list[str]


def build(
    info: CellInfo,
    device: Device,
    step: StepFacts,
    recorder: Recorder | None,
    measurement: Measurement,
    outcome: Outcome,
) -> dict[str, Any]:
    """The whole run.json of one measurement; sections that were never reached are null."""
    sections = (recorder.shared_sections if recorder else {}) | measurement.sections
    before, after = sections.get("before"), sections.get("after")
    unprofiled = timing.unprofiled(before, after) if before else None
    power = measurement.power
    driver = power.driver() if power else None
    compiled = recorder.warm_up.compile_section() if recorder else None
    # Reading the cache folder takes a walk through it: once is enough.
    cache = (compiled or {}).get("cache")
    start = cache["start"] if cache else None
    notes = list(outcome.notes)
    if power and power.note:
        notes.append(power.note)
    if compiled and compiled.get("note"):
        notes.append(compiled["note"])
    if unprofiled and (unprofiled["drift"] or 1) > _DRIFT:
        notes.append(
            f"steps after profiling took {unprofiled['drift']:.2f} times those before: what the"
            " profiler leaves behind in the driver, or the machine changed"
        )
    changed = timing.unsteady(unprofiled) if unprofiled else None
    if changed:
        notes.append(changed)
    captured = recorder.runner.captured if recorder else None
    return {
        "schema": RUN_SCHEMA,
        "name": info.name,
        "label": step.label or step.module,
        "mode": info.mode.id,
        "rank": info.ranks.me.to_json() if info.ranks.me else None,
        "point": Point(info.batch, measurement.length).to_json(),
        "repeat": info.repeat,
        "repeats": info.options.repeats,
        "status": outcome.status,
        "failure": outcome.failure.to_json() if outcome.failure else None,
        "entry": info.entry,
        "created": info.created,
        "files": sections.get("files", {"trace": None, "execution_trace": None, "times": None}),
        "options": _used(info),
        "asked": info.options.to_json(),
        "script": {
            "path": os.path.abspath(info.target.value) if info.target.kind == "script" else None,
            "module": info.target.value if info.target.kind == "module" else None,
            "argv": list(info.target.args),
            "python": list(info.target.python),
            "launcher": list(info.target.launcher) or None,
            "exit_code": None,
            "error": None,
            "git": facts.git_state(script_folder(info.target)),
        },
        "step": {
            "tokens": step.tokens,
            "tokens_source": step.tokens_source,
            "batch": step.batch,
            "module": step.module,
            "call": step.call,
            "decode_steps_seen": step.decode_steps_seen,
            "prefill_calls_seen": step.prefill_calls_seen,
        },
        "unprofiled": unprofiled,
        "issue_ns": sections.get("issue_ns"),
        "issue": sections.get("issue"),
        "profiled": sections.get("profiled"),
        "bytes": _bytes(step, recorder, sections),
        "memory": _memory(device, sections),
        "device": device.facts() | {"driver": driver} | sections.get("measured", _UNMEASURED),
        "power": power.section() if power else {"note": "no GPU"},
        "versions": facts.versions(driver),
        "env": facts.environment(),
        "host": facts.host(),
        "startup": recorder.warm_up.startup_section(start) if recorder else None,
        "compile": compiled,
        "capture": captured.section() if captured else None,
        **_engine_sections(recorder, measurement, cache),
        "steadiness": _steadiness(measurement, sections, recorder, captured),
        "outputs": sections.get("outputs"),
        "hooks": _hooks(sections, unprofiled),
        "control": None,
        "notes": notes,
    }


def redact(manifest: dict[str, Any], target: Target) -> dict[str, Any]:
    """The manifest without host, user, arguments, environment, git state and paths."""
    texts = facts.personal_texts(script_folder(target))
    clean: dict[str, Any] = facts.redacted(manifest, texts)
    # An argument may turn up in what an error says. Short ones are words of everything.
    longest_first = sorted(target.args, key=len, reverse=True)
    words = [(word, "<argument>") for word in longest_first if len(word) > 3]
    clean["failure"] = facts.redacted(clean["failure"], words)
    clean["host"] = None
    clean["env"] = {}
    script = clean["script"]
    script["error"] = facts.redacted(script["error"], words)
    script["argv"] = None
    script["launcher"] = script["launcher"] and [os.path.basename(script["launcher"][0])]
    script["git"] = None
    script["path"] = os.path.basename(script["path"]) if script["path"] else None
    script["python"] = [os.path.basename(script["python"][0])]
    clean["versions"]["platform"] = None
    cache = (clean.get("compile") or {}).get("cache")
    if cache and cache["dir"]:
        cache["dir"] = os.path.basename(cache["dir"])
    return clean


def _used(info: CellInfo) -> dict[str, Any]:
    """The options as used: the plan's counts, which may be smaller than those asked for."""
    plan = info.plan
    return info.options.to_json() | {
        "warmup": plan.warmup,
        "timed_steps": plan.timed_before + plan.timed_after,
        "steps": plan.profiled,
        "issue_steps": plan.issue,
        "plan": dataclasses.asdict(plan),
    }


def _engine_sections(
    recorder: Recorder | None, measurement: Measurement, cache: dict[str, Any] | None
) -> dict[str, Any]:
    """What lies between compiled and captured: pieces, buckets, autotuning, torch's own trees."""
    compiler = recorder.runner.compiler if recorder else None
    pieces = compiler.pieces if compiler else None
    autotune = compiler.autotune if compiler else None
    sections: dict[str, Any] = {
        "piecewise": pieces.section(measurement.length) if pieces else None,
        "buckets": recorder.bucket_section(measurement) if recorder else None,
        "autotune": None,
        "cudagraph_trees": compiler.trees.section() if compiler and compiler.trees else None,
    }
    if compiler and autotune:
        graphs = (cache or {}).get("fx_graph", {})
        sections["autotune"] = autotune.section(
            compiler.compiles.autotune_seconds(),
            cached=graphs.get("hits", 0) > 0 and not graphs["misses"],
        )
    return sections


def _bytes(step: StepFacts, recorder: Recorder | None, sections: dict[str, Any]) -> dict[str, Any]:
    caches = recorder.placed.caches() or recorder.observed.caches() if recorder else {}
    section = byte_section(step.model, caches)
    section |= read_section(step, recorder.reads if recorder else None, section)
    if step.weight_bytes is not None:
        section["weights_read_per_step"] = step.weight_bytes
        section["weights_source"] = "step.weight_bytes"
    kv_bytes = sections.get("kv_bytes", step.kv_bytes)
    if kv_bytes is not None:
        section["kv_read_per_step"] = kv_bytes
        section["kv_source"] = "step.kv_bytes"
    return section


def _memory(device: Device, sections: dict[str, Any]) -> dict[str, Any] | None:
    peak, timed = device.peak(), sections.get("peak_timed")
    if peak is None:
        return None
    # The counters were reset before the timed phase; torch keeps no older peak.
    return {
        "peak_allocated": max(
            peak["allocated"], sections.get("peak_before", {}).get("allocated", 0)
        ),
        "peak_reserved": max(peak["reserved"], sections.get("peak_before", {}).get("reserved", 0)),
        "peak_allocated_timed": timed["allocated"] if timed else None,
    }


def _hooks(sections: dict[str, Any], unprofiled: dict[str, Any] | None) -> dict[str, Any] | None:
    hooks: dict[str, Any] | None = sections.get("hooks")
    if hooks is None or not unprofiled or not unprofiled["median_ns"]:
        return hooks
    return hooks | {"share": round(hooks["cost_ns"] / unprofiled["median_ns"], 6)}


def _steadiness(
    measurement: Measurement, sections: dict[str, Any], recorder: Recorder | None, captured: Any
) -> dict[str, Any] | None:
    if recorder is None:
        return None
    observed = recorder.observed
    if captured is not None and len(captured.observation.steps) > len(observed.steps):
        observed = captured.observation
    section = observed.section()
    section["launch_sequence"] = None
    section["observed"] = None
    trace = sections.get("files", {}).get("trace")
    if trace:
        sequence, seen = launch_sequence(os.path.join(measurement.folder, trace))
        section["launch_sequence"] = sequence
        section["observed"] = seen
    section["synchronizations"] = recorder.synchronization_section()
    return section
