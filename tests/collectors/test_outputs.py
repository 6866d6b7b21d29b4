"""Outputs across modes: equal, close, different, or not compared, and never a guess."""

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from gaptrace_collectors.modes import MODES  # noqa: E402
from gaptrace_collectors.outputs import Outputs, logits_of  # noqa: E402


def record(scratch, mode, logits, tokens=None, first=1, repeat=1):
    outputs = Outputs(str(scratch), MODES[mode], repeat)
    for step, value in enumerate(logits):
        fed = None if tokens is None else torch.tensor([tokens[step]])
        outputs.note(step + 1, value, fed)
    return outputs.verdict(first)


EAGER = [torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([[2.0, 0.0, 1.0]])]


def test_the_first_eager_run_is_the_reference(tmp_path):
    assert record(tmp_path, "eager", EAGER)["status"] == "reference"


def test_equal_means_bit_for_bit(tmp_path):
    record(tmp_path, "eager", EAGER)
    verdict = record(tmp_path, "graph", EAGER)
    assert (verdict["status"], verdict["steps_compared"]) == ("equal", 2)
    near = [value * (1 + 1e-5) for value in EAGER]
    assert record(tmp_path, "graph", near)["status"] == "close"
    assert record(tmp_path, "eager", EAGER, repeat=2)["status"] == "equal"


def test_compiled_and_captured_falls_back_on_the_compiled_run(tmp_path):
    record(tmp_path, "eager", [EAGER[0] * -1, EAGER[1]])
    compiled = record(tmp_path, "compiled", EAGER)
    assert (compiled["status"], compiled["against"]) == ("different", "eager/1")
    verdict = record(tmp_path, "compiled-graph", EAGER)
    assert (verdict["status"], verdict["against"]) == ("equal", "compiled/1")


def test_the_same_token_everywhere_allows_more_noise(tmp_path):
    record(tmp_path, "eager", EAGER)
    verdict = record(tmp_path, "compiled", [value + 0.002 for value in EAGER])
    assert verdict["rel_l2"] > verdict["tolerance"]
    assert (verdict["status"], verdict["argmax_equal"]) == ("close", True)


def test_different_says_how_far(tmp_path):
    record(tmp_path, "eager", EAGER)
    verdict = record(tmp_path, "graph", [EAGER[0], EAGER[0]])
    assert verdict["status"] == "different"
    assert verdict["rel_l2"] > 0.5
    assert verdict["argmax_equal"] is False


def test_nan_is_different(tmp_path):
    record(tmp_path, "eager", EAGER)
    bad = [EAGER[0] * float("nan"), EAGER[1]]
    assert record(tmp_path, "compiled", bad)["status"] == "different"


def test_comparison_stops_where_other_tokens_were_fed(tmp_path):
    record(tmp_path, "eager", EAGER, tokens=[7, 2])
    verdict = record(tmp_path, "compiled", [EAGER[0], EAGER[1] * 5], tokens=[7, 1])
    # Equal logits from which another token was chosen: they were not what it was chosen by.
    assert (verdict["status"], verdict["steps_compared"]) == ("not compared", 0)
    assert verdict["reason"].startswith("1 steps were equal, but from step 2 on the modes were fed")
    near = [EAGER[0] * (1 + 1e-5), EAGER[1] * 5]
    verdict = record(tmp_path, "compiled", near, tokens=[7, 1])
    assert (verdict["status"], verdict["steps_compared"]) == ("close", 1)
    assert "different tokens" in verdict["reason"]


def test_steps_before_the_capture_are_no_evidence(tmp_path):
    record(tmp_path, "eager", EAGER)
    verdict = record(tmp_path, "graph", EAGER, first=3)
    assert verdict["status"] == "not compared"


def test_without_an_eager_run_nothing_is_claimed(tmp_path):
    verdict = record(tmp_path, "graph", EAGER)
    assert verdict["status"] == "not compared"
    assert "no eager run" in verdict["reason"]


def test_a_step_that_returns_nothing_is_not_compared(tmp_path):
    assert record(tmp_path, "eager", [None])["status"] == "not compared"


def test_logits_of_what_models_return():
    logits = torch.arange(12.0).reshape(1, 3, 4)
    last = logits[:, -1]
    loss = torch.zeros(1)
    named = ({"logits": logits}, {"loss": loss, "scores": logits})
    for out in (logits, *named, (logits, "cache"), (loss, logits), last):
        assert torch.equal(logits_of(out), last)
    assert logits_of(torch.zeros(2, 2, dtype=torch.long)) is None


def test_a_captured_step_must_be_nearly_equal_whatever_the_most_likely_token(tmp_path):
    apart = [value * 1.02 for value in EAGER]
    record(tmp_path, "eager", [value.bfloat16() for value in EAGER])
    record(tmp_path, "compiled", [value.bfloat16() for value in EAGER])
    for mode, wanted in (("graph", "different"), ("compiled-graph", "different")):
        verdict = record(tmp_path, mode, [value.bfloat16() for value in apart])
        assert (verdict["status"], verdict["argmax_equal"]) == (wanted, True)
        assert len(verdict["per_step"]) == 2
        assert verdict["rel_l2"] == max(verdict["per_step"])
    assert record(tmp_path, "max-autotune", [v.bfloat16() for v in apart])["status"] == "close"


def test_a_masked_vocabulary_does_not_hide_a_difference(tmp_path):
    masked = [torch.cat((value, torch.full((1, 2), -torch.inf)), -1) for value in EAGER]
    record(tmp_path, "eager", masked)
    assert record(tmp_path, "graph", masked)["status"] == "equal"
    wrong = [masked[0], masked[1] * torch.tensor([2.0, 1, 1, 1, 1])]
    assert record(tmp_path, "graph", wrong)["status"] == "different"
    elsewhere = [masked[0], masked[1].roll(1)]
    verdict = record(tmp_path, "graph", elsewhere)
    assert (verdict["status"], verdict["per_step"][-1]) == ("different", None)


def test_logits_without_a_finite_number_tell_nothing(tmp_path):
    nothing = [value * torch.nan for value in EAGER]
    record(tmp_path, "eager", nothing)
    assert record(tmp_path, "graph", nothing)["status"] == "not compared"
