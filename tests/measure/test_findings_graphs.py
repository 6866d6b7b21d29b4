"""Findings about graphs and compilation, and what the rules say about recorded traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gaptrace.analysis import analyze
from gaptrace.reading.loading import load
from gaptrace.results.codec import to_data
from tests.builders import Event, graph_launch, kernel, launch, mark, op, runtime
from tests.measure.loops import GEMM, eager, eagers, ids, loop, the

COMPILE = "_compile.compile_inner (dynamo_timed)"
HOST_RULES = ("GT1", "GT2", "GT3", "GT5")


# --- graphs


def piece(at: int, corr: int, *, graph_id: int | None = None) -> list[Event]:
    """A replay of two kernels of 2,000 with 500 between them, from 1,500 to 6,000."""
    return [
        graph_launch(at=at, dur=1_000, corr=corr),
        kernel(GEMM, at=at + 1_500, dur=2_000, corr=corr, graph_id=graph_id, node=1),
        kernel(GEMM, at=at + 4_000, dur=2_000, corr=corr, graph_id=graph_id, node=2),
    ]


def in_pieces(count: int):
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [e for k in range(count) for e in piece(at + 10_000 * k, corr + k)]

    return draw


def test_many_pieces() -> None:
    found = loop(in_pieces(4), period=40_000)
    # From the end of a piece, 6,000, to the first kernel of the next, 11,500.
    assert the(found, "GT401").ceiling_ns_per_token == 3 * 5_500
    assert the(found, "GT401").places == 5 * 3
    # The fourth gap lies before the next step.
    assert the(found, "GT402").ceiling_ns_per_token == 5_500
    assert "GT401" not in the(found, "GT402").overlaps


@pytest.mark.parametrize(
    ("unprofiled", "left"),
    # Busy 16,000, between the nodes 2,000; seams 16,500 and before the next step 5,500.
    [(26_000, 8_000), (19_000, 1_000), (40_000, 22_000)],
)
def test_a_late_host_is_left_the_unprofiled_idle_but_not_that_between_nodes(
    unprofiled: int, left: int
) -> None:
    run = manifest(unprofiled={"median_ns": unprofiled})
    found = loop(in_pieces(4), period=40_000, manifest=run)
    pieces = the(found, "GT401")
    assert pieces.ceiling_ns_per_token == min(16_500, left)
    assert the(found, "GT402").ceiling_ns_per_token == min(5_500, left)
    assert "the GPU is idle for 16.5 µs per token" in pieces.text
    assert ("of it are left unprofiled" in pieces.text) is (left < 16_500)
    assert ("less the 2.00 µs between graph nodes" in pieces.text) is (left < 16_500)


def test_no_idle_left_for_the_host_is_nothing_to_win() -> None:
    run = manifest(unprofiled={"median_ns": 17_500})
    found = loop(in_pieces(4), period=40_000, manifest=run)
    assert not {"GT401", "GT402"} & set(ids(found))
    text = the(found, "GT001").text
    assert (
        "The host is late for 22.0 µs per token as profiled (none of it is left unprofiled)."
        in text
    )
    assert "between graph nodes, 1.50 µs per token." in found.sentence


def test_three_pieces_are_not_many() -> None:
    assert "GT401" not in ids(loop(in_pieces(3), period=30_000))


def with_remainder(at: int, corr: int, step: int, *, graph_id: int | None = None) -> list[Event]:
    """A replay from 1,500 to 21,500, then an eager op whose kernel ends at 34,000."""
    nodes = [
        kernel(GEMM, at=at + 1_500 + 5_000 * k, dur=5_000, corr=corr, graph_id=graph_id, node=k)
        for k in range(4)
    ]
    rest = eager(at + 30_000, corr + 1, inside="aten::add")
    return [graph_launch(at=at, dur=1_000, corr=corr), *nodes, *rest]


def test_uncaptured_remainder() -> None:
    found = loop(with_remainder, period=50_000)
    # 21,500 to 32,500 and 34,000 to 51,500.
    assert the(found, "GT402").ceiling_ns_per_token == 11_000 + 17_500
    assert "aten::add (1 per token)" in the(found, "GT402").text
    assert not {"GT101", "GT102", "GT105"} & set(ids(found))


def test_no_remainder_without_replays() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return eagers(at, corr, *[GEMM] * 20)

    assert "GT402" not in ids(loop(draw, period=100_000))


def test_graph_ids_that_never_repeat() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return with_remainder(at, corr, step, graph_id=7 + step)

    found = the(loop(draw, period=50_000), "GT403")
    # The replay's kernels end the gap from 34,000 to 51,500.
    assert found.ceiling_ns_per_token == 17_500
    assert "5 steps replay graphs with 5 different ids" in found.text


def test_one_graph_id_is_as_it_should_be() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return with_remainder(at, corr, step, graph_id=7)

    assert "GT403" not in ids(loop(draw, period=50_000))


def test_instantiation_inside_steps() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        make = runtime("cudaGraphInstantiateWithFlags", at=at + 36_000, dur=10_000)
        return [*with_remainder(at, corr, step), make]

    found = the(loop(draw, period=50_000), "GT403")
    assert found.ceiling_ns_per_token == 17_500
    assert found.confidence == "measured"
    assert found.evidence[0].call == "cudaGraphInstantiateWithFlags"
    assert found.places == 5


def test_replays_that_lost_kernels() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        events = with_remainder(at, corr, step)
        return [e for e in events if step != 2 or e["ts"] != at + 6_500]

    found = loop(draw, period=50_000)
    assert found.quality.withholds("idle")
    own = the(found, "GT404")
    assert (own.ceiling_ns_per_token, own.places) == (0, 1)
    assert [item.step for item in own.evidence] == [2]
    assert own.evidence[0].what == "replay with 3 GPU ops, usually 4"
    assert not [name for name in ids(found) if name.startswith(HOST_RULES)]


def test_equal_replays_need_no_word() -> None:
    assert "GT404" not in ids(loop(with_remainder, period=50_000))


def manifest(**rest: Any) -> dict[str, Any]:
    return {"schema": "gaptrace.run/1", "step": {"tokens": 1}, **rest}


def test_what_the_recorder_saw_against_capture() -> None:
    run = manifest(steadiness={"moved": ["past_key_values"], "launch_sequence": {"equal": False}})
    found = the(loop(in_pieces(1), period=40_000, manifest=run), "GT405")
    assert found.ceiling_ns_per_token == 0
    assert "past_key_values" in found.text
    assert found.places == 2


def test_a_steady_step_has_nothing_against_capture() -> None:
    run = manifest(steadiness={"moved": [], "grew": [], "launch_sequence": {"equal": True}})
    assert "GT405" not in ids(loop(in_pieces(1), period=40_000, manifest=run))


# --- compilation


def compiling(*steps: int):
    """One kernel from 2,500 to 52,500; in the given steps 30,000 of compile work at 60,000."""

    def draw(at: int, corr: int, step: int) -> list[Event]:
        events = eager(at, corr, dur=50_000)
        if step in steps:
            events.append(mark(COMPILE, at=at + 60_000, dur=30_000))
        return events

    return draw


def test_compile_work_in_some_steps() -> None:
    found = the(loop(compiling(3), period=100_000), "GT301")
    assert found.ceiling_ns_per_token == pytest.approx(30_000 / 5)
    assert "1 of 5 decode steps" in found.text
    assert found.places == 1
    assert COMPILE in found.text


def test_compile_work_in_most_steps() -> None:
    guard = {"guard": "L['x'].size()[1] == 7", "function": "forward", "phase": "timed"}
    run = manifest(compile={"recompiles": [guard]})
    found = loop(compiling(*range(6)), period=100_000, manifest=run)
    assert the(found, "GT302").ceiling_ns_per_token == 30_000
    assert "L['x'].size()[1] == 7 in forward" in the(found, "GT302").text
    assert not {"GT301", "GT303", "GT305"} & set(ids(found))


def test_the_first_call_was_profiled() -> None:
    found = loop(compiling(0), period=100_000)
    assert the(found, "GT303").ceiling_ns_per_token == 0
    assert not {"GT301", "GT302"} & set(ids(found))


def test_no_compile_work_no_finding() -> None:
    assert not [name for name in ids(loop(compiling(), period=100_000)) if name[:3] == "GT3"]


def regions(*, between: int):
    """Two compiled regions of 3,000 whose kernels last 10,000."""

    def draw(at: int, corr: int, step: int) -> list[Event]:
        events: list[Event] = []
        for index, begin in enumerate((at, at + 3_000 + between)):
            own = corr + index
            events += [
                op(f"Torch-Compiled Region: {index}/0", at=begin, dur=3_000),
                launch(at=begin + 1_000, dur=1_000, corr=own),
                kernel("triton_poi_fused_add_0", at=begin + 2_500, dur=10_000, corr=own),
            ]
        return events

    return draw


def test_a_compiled_step_in_pieces() -> None:
    found = the(loop(regions(between=57_000), period=100_000), "GT304")
    # Idle behind the first region: 12,500 to 62,500 and 72,500 to 102,500.
    assert found.ceiling_ns_per_token == 57_000
    assert found.confidence == "likely"


def test_one_recompile_is_not_several() -> None:
    one = {"guard": "x.dtype", "function": "forward", "phase": "warmup", "seconds": 2.5}
    run = manifest(compile={"recompiles": [one], "recompile_count": 1})
    text = the(loop(compiling(), period=100_000, manifest=run), "GT305").text
    assert "counted 1 recompile during warm-up. That took 2.50 s." in text


def test_graph_breaks_are_named() -> None:
    broken = {"reason": "call to print", "place": "model.py:3", "count": 1}
    run = manifest(compile={"graph_breaks": [broken]})
    found = the(loop(regions(between=57_000), period=100_000, manifest=run), "GT304")
    assert "call to print (model.py:3)" in found.text
    assert found.confidence == "measured"


def test_regions_that_follow_at_once_are_fine() -> None:
    assert "GT304" not in ids(loop(regions(between=1_000), period=100_000))


def test_recompiles_outside_the_profiled_steps() -> None:
    one = {"guard": "x.dtype", "function": "forward", "phase": "warmup", "seconds": 2.5}
    run = manifest(compile={"recompiles": [one, one], "recompile_count": 2})
    found = the(loop(compiling(), period=100_000, manifest=run), "GT305")
    assert found.ceiling_ns_per_token == 0
    assert "2 recompiles during warm-up. That took 5.00 s. Guards that failed: x.dtype" in (
        found.text
    )


@pytest.mark.parametrize(("late", "told"), [(0, False), (1, True)])
def test_a_graph_for_each_bucket_is_no_recompile_too_many(late: int, told: bool) -> None:
    one = {"guard": "n == 128", "function": "forward", "phase": "warm-up", "seconds": 2.5}
    counts = {"recompiles": [one], "recompile_count": 1, "recompiles_while_measured": late}
    run = manifest(compile=counts, buckets={"sizes": [128, 512], "this": 512})
    assert ("GT305" in ids(loop(compiling(), period=100_000, manifest=run))) is told


def guarded(dur: int):
    def draw(at: int, corr: int, step: int) -> list[Event]:
        check = op("TorchDynamo Cache Lookup", at=at + 60_000, dur=dur)
        return [*eager(at, corr, dur=50_000), check]

    return draw


def test_guard_checks() -> None:
    assert the(loop(guarded(10_000), period=100_000), "GT306").ceiling_ns_per_token == 10_000
    assert "GT306" not in ids(loop(guarded(1_000), period=100_000))


# --- recorded traces

SAMPLES = Path(__file__).parents[2] / "sample_traces"


def test_recorded_samples() -> None:
    found = {
        path.name.removesuffix(".json.gz"): ids(analyze(load(path)))
        for path in sorted(SAMPLES.glob("*.json.gz"))
    }
    if not found:
        pytest.skip("no sample traces")
    eager_runs = [names for name, names in found.items() if name.endswith("_eager")]
    assert eager_runs
    assert all(names[0] == "GT101" for names in eager_runs)
    captured = [names for name, names in found.items() if name.endswith("_graph")]
    assert captured
    assert all("GT101" not in names for names in captured)


@pytest.mark.corpus
def test_every_recorded_trace_gets_sensible_findings(corpus: Path) -> None:
    paths = [p for p in sorted(corpus.glob("*/*.json.gz")) if ".et." not in p.name]
    assert paths
    for path in paths:
        found = analyze(load(path))
        assert found.result.findings or found.headline.complete, path.name
        limit = found.headline.per_token["idle_ns"].median
        for finding in found.result.findings:
            json.dumps(to_data(finding))
            if finding.id.startswith(("GT1", "GT2", "GT3", "GT4")) and finding.id != "GT206":
                assert finding.ceiling_ns_per_token <= (limit or 0), (path.name, finding.id)
        if found.quality.withholds("causes"):
            assert not [name for name in ids(found) if name.startswith(HOST_RULES[:2])]
        if "GT001" in ids(found) or "GT002" in ids(found):
            assert not [f for f in found.result.findings if f.id in {"GT101", "GT102", "GT402"}]


@pytest.mark.corpus
def test_what_is_known_of_single_traces(corpus: Path) -> None:
    def of(name: str) -> list[str]:
        return ids(analyze(load(corpus / f"{name}.json.gz")))

    assert of("h200/plain_eager")[0] == "GT101"
    assert of("h200/plain_compiled")[0] == "GT101"
    for name in ("plain_graph_eager", "plain_reduce_overhead", "llama4_graph_eager"):
        assert of(f"h200/{name}") == ["GT001"], name
    assert "GT203" in of("public/moe_before_b200x2")
    assert "GT203" not in of("public/moe_syncless_b200x2")
    assert of("public/ns_resolution_v100") == ["GT002"]
    assert of("public/compile_gtx1650_skewed_clocks") == ["GT003"]


@pytest.mark.corpus
def test_the_bound_on_waits_holds_where_both_sides_were_recorded(corpus: Path) -> None:
    """The same model with and without its waits: the step got shorter by less than the ceiling."""
    before = analyze(load(corpus / "public/moe_before_b200x2.json.gz"))
    after = analyze(load(corpus / "public/moe_syncless_b200x2.json.gz"))
    won = before.headline.steps["idle_ns"].median - after.headline.steps["idle_ns"].median
    waits = [f for f in before.result.findings if f.id in {"GT201", "GT203"}]
    sync = before.headline.idle_by_cause_ns["sync"]
    assert sync < won <= sum(f.ceiling_ns_per_token for f in waits)
