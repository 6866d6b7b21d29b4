"""Findings from what the recorder saw beside the trace: skipped graphs, padding, cold starts."""

from __future__ import annotations

from typing import Any

import pytest

from gaptrace.knowledge.graph_skips import skip_of, skips
from tests.builders import Event
from tests.measure.loops import eager, ids, loop, the

PERIOD = 100_000


def draw(at: int, corr: int, step: int) -> list[Event]:
    return eager(at, corr, dur=50_000)


def analysed(**rest: Any):
    return loop(
        draw,
        period=PERIOD,
        manifest={"schema": "gaptrace.run/1", "step": {"tokens": 1}, **rest},
    )


def test_skipped_graphs_are_named_with_what_to_change() -> None:
    reason = "skipping cudagraphs due to mutated inputs (2 instances). Found from :\n model.py:3"
    trees = {
        "skips": 2,
        "skip_reasons": [{"reason": reason, "where": "model.py:3", "count": 2}],
    }
    found = the(analysed(cudagraph_trees=trees), "GT406")
    assert (found.ceiling_ns_per_token, found.places) == (0, 2)
    assert "2 compiled graphs" in found.text
    assert "mutated inputs (2 instances)" in found.text
    assert "mark_static_address" in found.text


def test_a_reason_nobody_knows_is_told_as_it_was_logged() -> None:
    trees = {"skips": 1, "skip_reasons": [{"reason": "the moon", "where": "", "count": 1}]}
    text = the(analysed(cudagraph_trees=trees), "GT406").text
    assert text.endswith("Logged: the moon.")


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("skipping cudagraphs due to mutated inputs (1 instances)", "writes into"),
        ("skipping cudagraphs due to input storage mutation (1 instances)", "another storage"),
        ("skipping cudagraphs due to ['input storage mutation', 'mutated inputs']", "writes into"),
        ("skipping cudagraphs due to cpu device (arg0_1)", "CPU"),
        ("skipping cudagraphs due to multiple devices: device('cuda:0')", "several devices"),
        ("skipping cudagraphs due to graph with symbolic shapes inputs and config", "varies"),
        ("disabling cudagraphs due to incompatible op aten._foobar", "cannot be captured"),
        ("skipping cudagraphs due to control flow operator: torch.cond.", "branches"),
        (
            "skipping cudagraph due to function 3 exceeding max re-recording limit (=128) on "
            "cudagraph node 7 due to static input data pointer changed.",
            "again and again",
        ),
        ("skipping cudagraphs due to ['non-Tensor inputs']", "neither a tensor"),
        ("index_put_ fallback with boolean indexing is not compatible with CUDA graphs", "mask"),
    ],
)
def test_reasons_of_torch_are_known(reason: str, word: str) -> None:
    known = skip_of(reason)
    assert known is not None
    assert word in known.means


def test_every_known_reason_has_something_to_change() -> None:
    for item in skips():
        assert len(item.means) > 20
        assert len(item.change) > 20
        assert not item.means.endswith(".")
        assert not item.change.endswith(".")


def test_graphs_recorded_again() -> None:
    trees = {"recordings": 12, "rerecordings": 9, "partitions": 3, "skips": 0}
    found = the(analysed(cudagraph_trees=trees), "GT407")
    assert (found.ceiling_ns_per_token, found.places) == (0, 9)
    assert "12 graphs were recorded for 3 captured parts, 9 of them again." in found.text


def test_a_graph_recorded_while_steps_were_measured() -> None:
    trees = {"recordings": 4, "recordings_while_measured": 1, "rerecordings": 0, "partitions": 3}
    found = the(analysed(cudagraph_trees=trees), "GT407")
    assert "1 of them while steps were measured: those were not steady." in found.text


@pytest.mark.parametrize(
    ("trees", "seen"),
    [
        ({"recordings": 3, "recordings_while_measured": 0, "partitions": 3}, False),
        ({"recordings": 3, "rerecordings": 0, "partitions": 3}, False),
        ({"recordings": 40, "rerecordings": None, "partitions": 3}, True),
        ({"recordings": 2, "rerecordings": None, "partitions": None}, False),
        ({}, False),
        (None, False),
    ],
)
def test_how_many_recordings_are_many(trees: Any, seen: bool) -> None:
    assert ("GT407" in ids(analysed(cudagraph_trees=trees))) is seen


def padded(share: float | None, kv: int | None = 100_000_000) -> dict[str, Any]:
    """Reading 100 MB at 4 TB/s takes 25,000 ns."""
    return {
        "buckets": {"sizes": [128, 512], "this": 512, "padding_share": share},
        "bytes": {"weights_read_per_step": 1, "kv_read_per_step": kv},
        "device": {"copy_bandwidth_bytes_per_s": 4e12},
    }


def test_padding_costs_its_bytes() -> None:
    found = the(analysed(**padded(0.4)), "GT408")
    assert found.ceiling_ns_per_token == pytest.approx(10_000)
    assert "40 % of the positions" in found.text
    assert "the bucket of 512" in found.text
    assert "40.0 MB of the 100 MB of cache" in found.text


def test_padding_never_costs_more_than_the_step_is_busy() -> None:
    found = the(analysed(**padded(0.4, 10_000_000_000)), "GT408")
    assert found.ceiling_ns_per_token == 50_000


def test_padding_without_bytes_is_told_and_not_priced() -> None:
    found = the(analysed(**padded(0.4, None)), "GT408")
    assert found.ceiling_ns_per_token == 0
    assert "--kv-bytes" in found.text


@pytest.mark.parametrize("rest", [padded(0.01), padded(0.4, 1_000), padded(None), {}])
def test_little_padding_is_no_finding(rest: dict[str, Any]) -> None:
    assert "GT408" not in ids(analysed(**rest))


def started(cache: str, ready_s: float, compile_s: float | None = None) -> dict[str, Any]:
    return {
        "startup": {
            "ready_ns": int(ready_s * 1e9),
            "compile_seconds": compile_s,
            "autotune_seconds": None,
            "capture_ns": None,
            "cache": cache,
        },
        "compile": {
            "cache": {
                "fx_graph": {"hits": 0, "misses": 3, "bypasses": 0},
                "new_files": {"cubin": 40, "so": 2, "py": 50},
                "bytes": 12_000_000,
            }
        },
    }


def test_a_cold_start_says_what_a_cache_would_have_held() -> None:
    found = the(analysed(**started("cold", 60, 42)), "GT307")
    assert found.ceiling_ns_per_token == 0
    assert "ready after 60.0 s, of it 42.0 s compiling." in found.text
    assert "3 look-ups missed, 42 kernels were built" in found.text
    assert "12.0 MB" in found.text


def test_tuning_within_a_compilation_is_not_told_as_if_it_came_on_top() -> None:
    run = started("cold", 92, 52)
    run["startup"]["autotune_seconds"] = 48
    run["compile"]["cache"]["fx_graph"]["misses"] = 1
    run["compile"]["cache"]["new_files"] = {"cubin": 1}
    text = the(analysed(**run), "GT307").text
    assert "of it 52.0 s compiling, 48.0 s autotuning (in part within the compiling)." in text
    assert "1 look-up missed, 1 kernel was built." in text


@pytest.mark.parametrize(
    "rest", [started("warm", 60, 42), started("none", 60), started("cold", 1, 0.5), {}]
)
def test_starts_that_need_no_word(rest: dict[str, Any]) -> None:
    assert "GT307" not in ids(analysed(**rest))


def tuned(*choices: dict[str, Any], name: str = "triton_tem_fused_mm_t_view_3") -> Any:
    """Steps of one kernel of 50 µs, of a run whose autotuning made these choices."""

    def one(at: int, corr: int, step: int) -> list[Event]:
        return eager(at, corr, name, dur=50_000)

    manifest = {"schema": "gaptrace.run/1", "step": {"tokens": 2}}
    return loop(one, period=PERIOD, manifest={**manifest, "autotune": {"choices": list(choices)}})


def choice(ns: int, extern: int | None, kind: str = "Triton template", **rest: Any):
    return {"op": "mm", "kind": kind, "ns": ns, "best_extern_ns": extern, "count": 1, **rest}


def test_trials_much_longer_than_the_kernels_are_told() -> None:
    found = the(tuned(choice(100_000, 120_000)), "GT409")
    assert (found.ceiling_ns_per_token, found.places) == (0, 1)
    assert "took 100 µs on average when each was tried alone" in found.text
    assert "(the best library calls 120 µs)" in found.text
    assert "In this step their 1 kernel takes 50.0 µs on average: 50 % of a trial" in found.text


def test_each_bucket_asked_for_its_own_graph() -> None:
    two = (choice(90_000, 150_000), choice(110_000, None))
    text = the(tuned(*two), "GT409").text
    assert "2 matrix products" in text
    assert "took 100 µs on average" in text
    assert "(the best library calls 150 µs)" in text


@pytest.mark.parametrize(
    ("choices", "name"),
    [
        ([choice(70_000, 80_000)], "triton_tem_fused_mm_t_view_3"),
        ([choice(100_000, 120_000, "cuBLAS")], "triton_tem_fused_mm_t_view_3"),
        ([choice(100_000, 120_000)], "triton_poi_fused_add_3"),
        ([], "triton_tem_fused_mm_t_view_3"),
        ([choice(100_000, 120_000, count=None)], "triton_tem_fused_mm_t_view_3"),
    ],
    ids=["nearly the kernel", "library", "no template in the step", "no choice", "uncounted"],
)
def test_trials_that_say_nothing_of_this_step(choices: list[dict[str, Any]], name: str) -> None:
    assert "GT409" not in ids(tuned(*choices, name=name))


def test_trials_of_other_templates_than_the_step_runs_are_not_compared() -> None:
    def two(at: int, corr: int, step: int) -> list[Event]:
        name = "triton_tem_fused_mm_3"
        first = eager(at, corr, name, dur=20_000)
        return first + eager(at + 40_000, corr + 1, name, dur=20_000)

    manifest = {"schema": "gaptrace.run/1", "step": {"tokens": 1}}
    for count, seen in ((3, False), (4, True)):
        autotune = {"choices": [choice(100_000, None, count=count)]}
        run = loop(two, period=PERIOD, manifest={**manifest, "autotune": autotune})
        assert ("GT409" in ids(run)) is seen


def test_a_second_start_is_not_told_to_ship_the_cache_that_it_found() -> None:
    run = started("partly warm", 25, 5)
    run["compile"]["cache"]["fx_graph"] = {"hits": 2, "misses": 0, "bypasses": 0}
    found = the(analysed(**run), "GT307")
    assert found.title == "a start with a partly warm compile cache"
    assert "0 look-ups missed, 42 kernels were built. All graphs came from the cache" in found.text
    assert "ship it" not in found.text
