"""The compiled step from saved answers of Inductor, held against what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from gaptrace.document.blocks import Detail
from gaptrace.document.build import document
from gaptrace.document.sections import Context
from gaptrace.errors import GaptraceError
from gaptrace.measure.fusion_model import Estimate
from gaptrace.predict import PredictOptions, predict
from gaptrace.predict.compiled import Host, launched_step, withheld_because
from gaptrace.predict.saved import checked
from gaptrace.render import formats
from gaptrace.render.formats import Style
from gaptrace.results.codec import to_data
from gaptrace.results.prediction import CompiledFigures, ValueBytes
from tests.predict import recorded
from tests.predict.recorded import MISSED, MODELS, TRUE


def figures(answer: dict[str, Any], model: str = "llama4") -> CompiledFigures:
    found = predict(recorded.eager(model), answer=answer).compile.predicted
    assert found is not None
    return found


@pytest.mark.parametrize("model", MODELS)
def test_kernels_busy_and_captured_step(model: str) -> None:
    found = predict(recorded.eager(model), answer=recorded.answer(model))
    step, true = found.compile.predicted, TRUE[model]
    assert step is not None
    assert found.compile.exact
    assert step.kernels == true["kernels"] - MISSED[model][0]
    assert step.generated == true["generated"] - MISSED[model][1]
    kernels, busy, captured = step.range.kernels, step.range.busy_ns, step.range.captured_step_ns
    assert kernels is not None
    assert kernels[0] <= true["kernels"] <= kernels[1]
    assert step.busy_ns is not None
    assert busy is not None
    assert abs(step.busy_ns / true["busy"] - 1) < 0.05
    assert busy[0] < true["busy"] < busy[1]
    assert step.captured_step_ns is not None
    assert captured is not None
    assert abs(step.captured_step_ns / true["compiled-graph"] - 1) < 0.05
    assert captured[0] < true["compiled-graph"] < captured[1]
    assert step.busy_ns_by_class is not None
    assert sum(step.busy_ns_by_class.values()) == pytest.approx(step.busy_ns, abs=5)


@pytest.mark.parametrize("model", MODELS)
def test_the_torch_version_stands_on_the_result(model: str) -> None:
    field = predict(recorded.eager(model), answer=recorded.answer(model)).compile
    assert field.source == "Inductor of torch 2.13.0+cpu"
    assert isinstance(field.note, str)
    assert "recorded with 2.11.0" in field.note
    assert isinstance(field.torch, dict)
    assert field.torch["tested"] is True


def test_the_json_has_the_names_of_the_definitions() -> None:
    found = to_data(predict(recorded.eager("llama4"), answer=recorded.answer("llama4")))
    assert {"ready", "blockers", "predicted_step_ns", "range_ns"} <= set(found["capture"])
    assert {"predicted", "source"} <= set(found["compile"])
    assert {"kernels", "generated", "busy_ns", "step_ns", "captured_step_ns", "range"} <= set(
        found["compile"]["predicted"]
    )
    low, high = found["capture"]["range_ns"]
    assert low < found["capture"]["predicted_step_ns"] < high


def test_the_square_has_measured_and_predicted_cells() -> None:
    cells = predict(recorded.eager("llama4"), answer=recorded.answer("llama4")).square
    assert {mode: cell.known for mode, cell in cells.items()} == {
        "eager": "measured",
        "compiled": "not recorded",
        "graph": "predicted",
        "compiled-graph": "predicted",
    }
    assert "under the profiler only" in (cells["compiled"].note or "")
    graph = cells["graph"]
    assert graph.step_ns is not None
    assert graph.tokens_per_s == pytest.approx(1e9 / graph.step_ns, rel=1e-5)
    assert (graph.kernels, graph.launches) == (225, 1)
    assert cells["eager"].range_ns is None
    assert cells["eager"].source == "as profiled"


def test_doubts_widen_what_is_printed_and_are_named() -> None:
    answer = recorded.answer("llama4")
    sure = figures(answer)
    answer["doubts"] = [{"id": "graph_breaks", "text": "2 ops need a value", "ops": [0, 1]}]
    unsure = figures(answer)
    assert unsure.busy_ns == sure.busy_ns
    assert sure.range.busy_ns is not None
    assert unsure.range.busy_ns is not None
    assert unsure.range.busy_ns[1] > sure.range.busy_ns[1]
    assert sure.range.kernels == (71, 87)
    assert unsure.range.kernels == (59, 99)
    doubts = predict(recorded.eager("llama4"), answer=answer).compile.doubts
    assert isinstance(doubts, tuple)
    assert doubts[0].ops == ("aten::embedding", "aten::arange")


def test_a_state_that_grows_stands_in_the_way_of_capture() -> None:
    answer = recorded.answer("llama4")
    answer["doubts"] = [{"id": "growing_state", "text": "2 states grow by cat", "ops": [1]}]
    ready = predict(recorded.eager("llama4"), answer=answer).capture
    assert ready.verdict == "capturable after these changes"
    (item,) = ready.blockers
    assert (item.id, item.places[0].op) == ("growing_state", "aten::arange")
    assert "static cache" in item.change


def test_figures_per_token_are_those_of_the_step_over_its_tokens() -> None:
    found = predict(recorded.eager("llama4")).capture
    assert found.per_token is not None
    assert found.per_token.launches == 1
    assert found.per_token.step_ns == pytest.approx(found.predicted_step_ns, abs=1)


def test_the_same_torch_prints_a_narrow_range() -> None:
    answer = recorded.answer("llama4")
    answer["torch"]["recorded"] = "2.13.0"
    assert figures(answer).range.kernels == (77, 81)


def test_a_launched_step_from_a_profiled_host_is_withheld_with_the_reason() -> None:
    """Its range would span a factor of thirteen; where the GPU sets the pace it does not matter."""
    busy = Estimate(100_000, 90_000, 120_000)
    profiled = Host(20_000, "host dispatch as profiled", profiled=True)
    assert launched_step(busy, 50, profiled) is None
    assert "under the profiler only" in withheld_because(busy, 50, profiled)
    assert withheld_because(busy, 50, Host(20_000, "unprofiled issue time")) == ""
    slow = launched_step(busy, 2, profiled)
    assert slow is not None
    assert (slow.ns, slow.low_ns) == (100_000, 90_000)
    found = predict(recorded.eager("llama4"), answer=recorded.answer("llama4"))
    assert found.compile.predicted is not None
    assert found.compile.predicted.step_ns is None
    assert "under the profiler only" in str(found.compile.launched_withheld)
    text = formats.get("terminal").render(document(found, Context(Detail.FULL)), Style())
    assert "compiled step with plain launches is withheld" in text
    assert "gaptrace collect" in text


def test_a_launched_step_may_cost_the_host_half_to_double() -> None:
    """The fixed cost per compiled call is in no eager trace, and hosts have two speeds."""
    busy = Estimate(100_000, 90_000, 120_000)
    warm = launched_step(busy, 50, Host(20_000, "unprofiled issue time"))
    assert warm is not None
    assert (warm.ns, warm.low_ns) == (1_000_000, 500_000)
    assert warm.high_ns == pytest.approx(2_000_000, rel=0.01)
    bound = launched_step(busy, 1, Host(20_000, "unprofiled issue time"))
    assert bound is not None
    assert (bound.ns, bound.low_ns) == (100_000, 90_000)
    assert launched_step(busy, 50, Host(None, "")) is None


def test_kernels_that_no_op_launched_stay() -> None:
    answer = recorded.answer("gpt2_4")
    plain = figures(answer, "gpt2_4")
    answer["counts"] |= {"unrecorded_kernels": 2, "unrecorded_ns": 9_000, "total": 56}
    step = figures(answer, "gpt2_4")
    assert plain.busy_ns is not None
    assert step.busy_ns == plain.busy_ns + 9_000
    assert step.busy_ns_by_class is not None
    assert sum(step.busy_ns_by_class.values()) == pytest.approx(step.busy_ns, abs=5)


def test_a_compiled_recording_says_so() -> None:
    answer = recorded.answer("gpt2_4") | {"already": "compiled"}
    found = predict(recorded.eager("gpt2_4"), answer=answer)
    assert found.compile.already
    assert found.savings is None
    assert found.compile.predicted is None
    assert found.compile.note == "already compiled"


def stacked(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with a doubt: kernel 0 copies 35 MB; and with what unstacking gives."""
    generated = answer["kernels"]["generated"]
    copy = {**generated[0], "bytes": 70_000_000, "aten": ["aten::select_scatter"], "reductions": 0}
    changed = {**answer, "kernels": {**answer["kernels"], "generated": [copy, *generated[1:]]}}
    changed["doubts"] = [
        {
            "id": "stacked_cache",
            "text": "in-place writes",
            "ops": [0],
            "writes": 8,
            "buffers": 2,
            "base_bytes": 35_000_000,
            "view_bytes": 1_000_000,
            "whole_copies": 1,
            "kernels": [0],
        }
    ]
    changed["what_ifs"] = [
        {
            "name": "unstack-cache",
            "text": "8 tensors",
            "places": 8,
            "kernels": answer["kernels"],
            "counts": answer["counts"],
            "bytes": answer["bytes"],
        }
    ]
    return changed


def test_a_stacked_cache_is_named_with_its_loss_and_gain() -> None:
    answer = recorded.answer("llama4")
    found = predict(recorded.eager("llama4"), answer=stacked(answer))
    (cache,) = found.stacked_caches
    first = answer["kernels"]["generated"][0]
    # 850 and 50 for each load, and 70 MB at 3.5 TB/s; less the eager kernels it replaces.
    time = 850 + 50 * len(first["reads"]) + 20_000
    assert cache.loss_ns == pytest.approx(time - first["replaces"]["dur_ns"])
    assert cache.gain_ns is not None
    assert 18_000 < cache.gain_ns < 21_000
    assert "stacked buffers (35.0 MB each)" in cache.text
    assert f"{cache.gain_ns / 1000:.1f} µs of busy time won" in cache.text
    assert isinstance(found.compile.losses, tuple)
    assert isinstance(found.compile.what_ifs, tuple)
    assert found.compile.losses[0].kernels == 1
    assert found.compile.what_ifs[0].gain_ns == cache.gain_ns
    without = stacked(answer) | {"what_ifs": []}
    (open_end,) = predict(recorded.eager("llama4"), answer=without).stacked_caches
    assert open_end.gain_ns is None
    assert "unstack-cache" in open_end.text


def test_a_what_if_that_does_not_apply_gives_its_reason() -> None:
    answer = recorded.answer("llama4")
    answer["what_ifs"] = [{"name": "batch=1", "error": "the step was recorded at batch 1"}]
    found = predict(recorded.eager("llama4"), answer=answer).compile.what_ifs
    assert isinstance(found, tuple)
    assert found[0].error == "the step was recorded at batch 1"
    assert found[0].gain_ns is None


def test_savings_add_up_and_grow_with_the_batch() -> None:
    found = predict(
        recorded.eager("llama4"), PredictOptions((1, 16)), answer=recorded.answer("llama4")
    ).savings
    assert found is not None
    assert found.source == "exact dataflow"
    assert sum(group.launches for group in found.groups) == found.launches
    assert sum(group.bytes for group in found.groups) == pytest.approx(found.bytes, abs=20)
    one, more = found.at_batch["1"], found.at_batch["16"]
    assert (one.bytes, one.time_ns) == (found.bytes, found.time_ns)
    assert found.bytes < more.bytes < 16 * found.bytes
    assert found.values["aten::silu"] == ValueBytes(4 * 16_384, 4 * 16_384)
    assert [g.time_ns for g in found.groups] == sorted(
        (g.time_ns for g in found.groups), reverse=True
    )


def test_an_activation_that_is_quantized_in_the_same_kernel_is_listed() -> None:
    answer = recorded.answer("llama4")
    ops = answer["ops"]
    for kernel in answer["kernels"]["generated"]:
        if any(ops[i]["op"] == "aten::silu" for i in kernel["ops"]):
            kernel["writes"] = [{**kernel["writes"][0], "dtype": "float8_e4m3fn"}]
    found = predict(recorded.eager("llama4"), answer=answer)
    assert found.savings is not None
    assert found.savings.quantize_chains
    assert all("silu" in g.chain and g.quantize for g in found.savings.quantize_chains)
    plain = predict(recorded.eager("llama4"), answer=recorded.answer("llama4"))
    assert plain.savings is not None
    assert plain.savings.quantize_chains == ()


@pytest.mark.parametrize("body", [{}, {"schema": "gaptrace.inductor/2"}, [], "text"])
def test_other_objects_are_refused(body: Any) -> None:
    with pytest.raises(GaptraceError, match=r"gaptrace\.inductor/1"):
        checked(body, "x.json")


def test_an_answer_that_lacks_a_part_is_refused() -> None:
    with pytest.raises(GaptraceError, match="lacks torch"):
        checked({"schema": "gaptrace.inductor/1"}, "x.json")
