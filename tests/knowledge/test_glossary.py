"""Every number on a screen and in the JSON is one step from its definition."""

from __future__ import annotations

import pytest

from gaptrace import vocabulary
from gaptrace.errors import OptionError
from gaptrace.knowledge.glossary import entries, entry

CAUSES = tuple(vocabulary.CAUSES)
HOST_PARTS = (
    "python",
    "dispatch",
    "launch",
    "runtime",
    "alloc",
    "compile",
    "profiler",
    "sync",
    "backpressure",
    "waiting",
    "unattributed",
)
STEP_FIGURES = (
    "period_ns",
    "busy_ns",
    "idle_ns",
    "kernels",
    "launches",
    "copies",
    "host_dispatch_ns",
)
# The stable names of `gaptrace analyze --json`.
JSON_NAMES = (
    "schema",
    *(f"source.{name}" for name in ("path", "format", "events", "gpu", "engine", "rank")),
    "quality.verdict",
    *(f"quality.reasons[].{name}" for name in ("id", "text", "count", "withheld")),
    *(
        f"devices[].{name}"
        for name in (
            "device",
            "gpu_ops",
            "kernels",
            "span_ns",
            "busy_ns",
            "idle_ns",
            "gaps",
            "launch_calls",
            "kernel_launch_calls",
            "graph_launches",
            "ops_in_graphs",
            "kernels_in_graphs",
            "orphans",
            "starts_before_launch",
            "idle_by_cause_ns",
        )
    ),
    *(f"devices[].idle_by_cause_ns.{cause}" for cause in CAUSES),
    *(
        f"steps.{name}"
        for name in (
            "rule",
            "kind",
            "phase",
            "count",
            "complete",
            "tokens_per_step",
            "tokens_source",
            "median",
            "p5",
            "p95",
        )
    ),
    *(f"steps.{rank}.{name}" for rank in ("median", "p5", "p95") for name in STEP_FIGURES),
    *(
        f"per_token.{name}"
        for name in (
            "kernels",
            "launches",
            "host_dispatch_ns",
            "idle_ns",
            "busy_ns",
            "host_time_ns",
            "idle_by_cause_ns",
            "busy_by_kind_ns",
        )
    ),
    *(f"per_token.host_time_ns.{part}" for part in HOST_PARTS),
    *(
        f"rate.{name}"
        for name in (
            "tokens_per_s",
            "tokens_per_s_range",
            "source",
            "dilation",
            "unprofiled_step_ns",
            "unprofiled_idle_ns",
            "issue_ns",
            "predicted_unprofiled_step_ns",
            "predicted_unprofiled_range_ns",
        )
    ),
    *(
        f"ceilings.{name}"
        for name in (
            "launch_tokens_per_s",
            "launch_tokens_per_s_range",
            "bandwidth_tokens_per_s",
            "bus_tokens_per_s",
            "binding",
            "handover_bits_per_weight",
            "weight_bytes",
            "weight_bytes_source",
            "peak_bandwidth_bytes_per_s",
            "peak_bandwidth_source",
        )
    ),
    *(f"capture.{name}" for name in ("ready", "blockers", "predicted_step_ns", "range_ns")),
    *(
        f"compile.predicted.{name}"
        for name in ("kernels", "generated", "busy_ns", "step_ns", "captured_step_ns", "range")
    ),
    "compile.source",
    *(f"phases[].{name}" for name in ("phase", "batch", "period_ns")),
    *(
        f"findings[].{name}"
        for name in ("id", "title", "ceiling_ns_per_token", "evidence", "part_of", "quantities")
    ),
    # `gaptrace.job/1`.
    *(
        f"ranks[].{name}"
        for name in ("collectives", "communication_ns", "waiting_ns", "moving_ns", "last_share")
    ),
    "step.lost_to_skew_ns",
    *(f"stragglers[].{name}" for name in ("rank", "reason", "cost_ns")),
    *(f"clock.{name}" for name in ("aligned_by", "residual_ns")),
)
WORDS = {
    "busy": "busy",
    "idle": "idle",
    "gap": "gap",
    "step": "step",
    "token": "token",
    "host window": "host-window",
    "GPU window": "window",
    "launching thread": "launching-thread",
    "launch ceiling": "launch-ceiling",
    "bandwidth ceiling": "bandwidth-ceiling",
    "binding ceiling": "binding-ceiling",
    "crossover": "crossover",
    "hand-over": "crossover",
    "profiler slowdown": "dilation",
    "dilation": "dilation",
    "waiting": "waiting",
    "rank_wait": "rank_wait",
    "straggler": "straggler",
    "phase": "phase",
    "population": "population",
    "kind of step": "step-kind",
    "basis": "basis",
    "bound": "bound",
    "bus ceiling": "bus-ceiling",
    "exposed communication": "busy-by-kind",
    "unusable": "refused",
    "backpressure": "backpressure",
    "drained_by_sync": "drained_by_sync",
    "orphan": "orphan",
    "graph replay": "graph-replay",
    "node": "node",
    "launch call": "launch-call",
    "captured share": "captured-share",
    "kernels per token": "kernels-per-token",
    "launches per token": "launches-per-token",
    "kernels per graph launch": "kernels-per-graph-launch",
    "host time per token": "host-time",
    "host dispatch time": "host-dispatch",
    "unprofiled idle": "unprofiled-idle",
    "unprofiled host dispatch": "issue",
    "measured savings": "measured-savings",
    "realised": "measured-savings",
    "predicted captured step": "predicted-captured-step",
    "readiness": "readiness",
    "score": "score",
    "guard": "guard",
    "recompile": "recompile",
    "recompiling every step": "recompile",
    "graph break": "graph-break",
    "fusion": "fusion",
    "epilogue": "epilogue",
    "roofline": "roofline",
    "bridge": "bridge",
    "profiling": "dilation",
    "gate": "gate",
    "idle_share": "idle",
    "peak_memory": "peak-memory",
    "ok": "ok",
    "limited": "limited",
    "refused": "refused",
    "better": "better",
    "worse": "worse",
    "within noise": "within-noise",
    "too few steps to judge": "too-few-steps",
    "beyond step noise": "beyond-step-noise",
    "pointwise/reduction": "pointwise",
    "as profiled": "rate-source",
    **{cause: cause for cause in CAUSES},
}


@pytest.mark.parametrize("name", JSON_NAMES)
def test_every_json_name_has_an_entry_that_names_it(name: str) -> None:
    found = entry(name)
    listed = name
    for rank in ("steps.p5.", "steps.p95."):
        listed = listed.replace(rank, "steps.median.")
    assert listed in found.json


@pytest.mark.parametrize(("term", "found"), WORDS.items())
def test_every_word_has_its_entry(term: str, found: str) -> None:
    assert entry(term).id == found


def test_entries_are_whole() -> None:
    known = entries()
    ids = {item.id for item in known}
    assert len(ids) == len(known)
    for item in known:
        assert item.title
        assert item.answer.endswith(".")
        # One sentence: no full stop but the last, apart from those inside names like `.item()`.
        assert ". " not in item.answer
        assert item.definition.endswith(".")
        # A reader has public documents, and nothing of ours that is not in the entry itself.
        assert "gaptrace" not in item.source
        assert set(item.see) <= ids - {item.id}
        assert item.see


def test_every_word_of_the_vocabulary_has_its_entry() -> None:
    lists = (
        vocabulary.HOST_CLASSES,
        vocabulary.OP_CLASSES,
        vocabulary.MODES,
        vocabulary.PHASES,
        vocabulary.STEP_METRICS,
        vocabulary.RUN_METRICS,
    )
    ids = {item.id for item in entries()}
    for words in lists:
        for word in words.values():
            assert word.term in ids, word
    for cause in vocabulary.CAUSES.values():
        assert entry(cause.label).id == cause.term


def test_no_two_entries_claim_one_name() -> None:
    claims: dict[str, str] = {}
    for item in entries():
        for name in {item.id, item.title.lower(), *(alias.lower() for alias in item.aliases)}:
            assert claims.setdefault(name.replace("-", " "), item.id) == item.id, name


def test_a_json_name_belongs_to_one_entry() -> None:
    paths = [path for item in entries() for path in item.json]
    assert len(paths) == len(set(paths))


def test_times_have_units() -> None:
    for item in entries():
        for path in item.json:
            if path.endswith("_ns"):
                assert item.unit.startswith("ns")


@pytest.mark.parametrize(
    ("term", "found"),
    [
        ("busy_ns", "busy"),
        ("Busy", "busy"),
        ("BUSY_NS", "busy"),
        ("  graph   node gap ", "graph_node"),
        ("graph node", "graph_node"),
        ("launch_ceiling", "launch-ceiling"),
        ("steps.p95.idle_ns", "idle"),
        ("handover_bits_per_weight", "crossover"),
        ("tokens_per_s", "tokens-per-s"),
    ],
)
def test_spellings(term: str, found: str) -> None:
    assert entry(term).id == found


def test_a_slip_of_the_pen_is_answered_with_the_nearest_terms() -> None:
    with pytest.raises(OptionError, match="no glossary entry for 'backpresure'") as caught:
        entry("backpresure")
    assert "backpressure" in caught.value.hint


def test_nonsense_is_answered_with_the_way_to_the_list() -> None:
    with pytest.raises(OptionError) as caught:
        entry("qqqqqqqq")
    assert "lists all terms" in caught.value.hint
