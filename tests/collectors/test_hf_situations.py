"""Hugging Face scripts in the ways people generate: what is the step, how many tokens it makes."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

from tests.collectors import hf_scripts as scripts  # noqa: E402
from tests.collectors.test_right_module import recorded, refused  # noqa: E402

LAYERS, HEADS, WIDTH, F32 = 2, 1, 16, 4
POSITION = 2 * LAYERS * HEADS * WIDTH * F32  # bytes of keys and values


def test_beams(bench):
    step = recorded(bench, scripts.BEAMS)["step"]
    assert (step["batch"], step["tokens"]) == (6, 2)
    assert "3 beams per sequence (generation_config.num_beams" in step["tokens_source"]


def test_without_a_cache(bench):
    run = recorded(bench, scripts.UNCACHED)
    assert run["step"]["call"] == "1 x 9 tokens in input_ids, all of them computed anew"
    assert run["bytes"]["kv_source"] == "nothing is cached"


def test_assisted_generation_and_prompt_lookup_are_told(bench):
    assert "generate() was assisted by a LlamaForCausalLM" in refused(bench, scripts.ASSISTED)
    assert "generate() was assisted by prompt lookup" in refused(bench, scripts.LOOKUP)


def test_assisted_generation_before_a_plain_one(bench):
    run = recorded(bench, scripts.THEN_PLAIN)
    assert run["step"]["call"] == "1 x 1 tokens in input_ids"
    assert run["bytes"]["weights_read_per_step"] == 82_560  # of two layers: not the assistant


def test_forward_called_by_the_script(bench):
    run = recorded(bench, scripts.FORWARD)
    assert run["step"]["module"] == "LlamaForCausalLM"
    assert run["step"]["call"].startswith("LlamaForCausalLM.forward: 1 x 1")


def test_continuous_batching_reads_pages_in_use(bench):
    run = recorded(bench, scripts.BATCHING)
    assert run["step"]["tokens"] == run["step"]["batch"] == 3
    assert "packed into one row" in run["step"]["tokens_source"]
    sizes = run["bytes"]
    assert sizes["kv_read_per_step"] % POSITION == 0
    assert 3 * 8 * POSITION < sizes["kv_read_per_step"] < 3 * 66 * POSITION
    assert sizes["kv_read_per_step"] < sizes["kv_allocated"] / 4


@pytest.mark.parametrize("experts", ["eager", "grouped_mm", "batched_mm"])
def test_experts_that_are_used(bench, experts):
    run = recorded(bench, scripts.MOE.replace("{experts}", experts))
    one = 3 * 32 * 16 * F32  # gate, up and down of one expert
    every = 142_208 - 64 * 32 * F32  # all parameters but the embedding table
    assert run["bytes"]["weights_read_per_step"] == every - LAYERS * (8 - 2) * one
    assert "those that were used" in run["bytes"]["weights_source"]


def test_an_encoder_is_not_read_by_steps(bench):
    run = recorded(bench, scripts.WHISPER)
    assert run["step"]["call"] == "2 x 1 tokens in decoder_input_ids"
    assert run["step"]["tokens"] == 2
    sizes = run["bytes"]
    assert sizes["weights_read_per_step"] < 0.6 * sizes["weights_total"]
    cross = 2 * LAYERS * 2 * 50 * 32 * F32  # keys and values of 50 frames for two sequences
    assert sizes["kv_read_per_step"] == sizes["kv_allocated"] > cross


def test_a_static_cache_is_read_whole(bench):
    text = scripts.GENERATE.replace("**how)", "cache_implementation='static', **how)")
    run = recorded(bench, text)
    sizes = run["bytes"]
    assert sizes["kv_read_per_step"] == sizes["kv_allocated"]
    assert sizes["kv_allocated"] >= 67 * POSITION
    assert sizes["kv_source"] == "observed in one decode step: all that is allocated"


def test_of_a_sliding_window_only_the_window_is_read(bench):
    run = recorded(bench, scripts.WINDOW)
    # One layer of two keeps 4 positions, the other all; the profiled steps come after 30 tokens.
    sizes = run["bytes"]
    assert sizes["kv_read_per_step"] == sizes["kv_allocated"]
    assert sizes["kv_read_per_step"] < 0.75 * POSITION * 68
