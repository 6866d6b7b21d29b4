"""The step is the outermost call made once per token, however a script makes it."""

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from tests.collectors import nested_scripts as nested  # noqa: E402
from tests.collectors import step_scripts as scripts  # noqa: E402
from tests.collectors.conftest import QUICK  # noqa: E402

EAGER = ("--modes", "eager", *QUICK)


def named(name):
    """The script of that name."""
    return getattr(scripts, name, None) or getattr(nested, name)


def recorded(bench, text, *words):
    """The run.json of a script recorded eagerly."""
    done = bench.collect(*EAGER, bench.script(text), *words)
    assert done.code == 0, done.stderr
    run = done.run("eager")
    assert run["status"] == "ok"
    assert len(done.marks("eager")) == 6
    return run


def refused(bench, text):
    """What is said where no step can be found, as one line."""
    done = bench.collect(*EAGER, bench.script(text))
    assert done.code == 125, done.stderr
    assert "no decode step was found" in done.stderr
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("script", "module", "call"),
    [
        ("FORWARD", "GPT", "GPT.forward: 1 x 1 tokens in argument 0"),
        ("METHOD", "Decoder", "Decoder.decode_one: 1 x 1 tokens in argument 0"),
        ("NUMBERS", "Decoder", "Decoder.decode_one: 1 x 1 tokens in argument 0"),
        ("SILENT", "Decoder", "Decoder.step: 1 x 1 tokens in Block within Decoder.step"),
        ("REPLACED", "GPT", "GPT.forward: 1 x 1 tokens in argument 0"),
        ("OWN_CALL", "GPT", "GPT.forward: 1 x 1 tokens in argument 0"),
        ("LIGHTNING", "GPT", "1 x 1 tokens in argument 0"),
        ("PLAIN_OBJECT", "GPT", "1 x 1 tokens in argument 0"),
        ("DATA_PARALLEL", "DataParallel", "1 x 1 tokens in argument 0"),
    ],
)
def test_the_whole_model_is_the_step(bench, script, module, call):
    run = recorded(bench, named(script))
    assert run["step"]["module"] == module
    assert run["step"]["call"] == call
    assert run["step"]["tokens"] == 1
    assert run["bytes"]["weights_read_per_step"] == scripts.WEIGHTS
    assert 50 <= run["step"]["decode_steps_seen"] <= 60
    assert run["step"]["prefill_calls_seen"] == 1


def test_a_trunk_fed_tokens_within_forward_is_not_the_step(bench):
    run = recorded(bench, scripts.TRUNK)
    assert run["step"]["module"] == "LM"
    assert run["step"]["call"].startswith("LM.forward: 1 x 1")


@pytest.mark.slow
def test_a_method_is_compiled_as_the_step(bench):
    text = scripts.METHOD.replace("[:, -1:].argmax(-1)\n\nmodel", "\n\nmodel").replace(
        "model.decode_one(token)", "model.decode_one(token.argmax(-1))"
    )
    text = text.replace("model.start(prompt)", "model.start(prompt)[:, -1:]")
    done = bench.collect("--modes", "eager,compiled", *QUICK, bench.script(text))
    assert done.code == 0, done.stderr
    run = done.run("compiled")
    assert run["status"] == "ok"
    assert run["compile"]["frames"] >= 1
    assert run["outputs"]["status"] in ("equal", "close")
    assert run["steadiness"]["observed"]["compiled regions"] >= 5


def test_parts_called_one_by_one_are_told_with_their_caller(bench):
    said = refused(bench, scripts.PARTS)
    assert "parts of GPT (Block and others) are called one by one from step (" in said
    assert "script.py:" in said
    assert "define build()" in said


def test_a_loop_without_a_cache_has_steps_that_grow(bench):
    run = recorded(bench, scripts.UNCACHED)
    assert run["step"]["tokens"] == 1
    assert run["step"]["call"] == "1 x 6 tokens in argument 0, all of them computed anew"
    assert any("nothing is cached" in note for note in run["notes"])
    assert run["step"]["decode_steps_seen"] == 59  # the first call cannot be told from a prompt


def test_a_loop_without_a_cache_from_a_single_token(bench):
    text = scripts.UNCACHED.replace("ids = prompt", "ids = prompt[:, :1]")
    run = recorded(bench, text)
    assert run["step"]["call"] == "1 x 2 tokens in argument 0, all of them computed anew"
    assert run["step"]["decode_steps_seen"] == 59


def test_a_loop_without_a_cache_through_forward(bench):
    run = recorded(bench, scripts.UNCACHED.replace("model(ids)", "model.forward(ids)"))
    assert run["step"]["module"] == "GPT"
    assert any("nothing is cached" in note for note in run["notes"])


def test_a_draft_is_not_taken_for_the_model(bench):
    said = refused(bench, scripts.SPECULATIVE)
    assert "GPT drafts tokens and GPT verifies several at once" in said
    assert "step.tokens" in said


def test_a_draft_within_one_module_is_not_taken_for_the_model(bench):
    said = refused(bench, nested.SPECULATIVE_IN_ONE)
    assert "GPT drafts tokens and GPT verifies several at once" in said


def test_a_decoder_called_by_itself_is_the_step_and_beams_are_known_from_options(bench):
    run = recorded(bench, nested.WHISPER)
    assert run["step"]["module"] == "Decoder"
    assert (run["step"]["batch"], run["step"]["tokens"]) == (10, 2)
    assert "beam_size of logits()" in run["step"]["tokens_source"]
    own = 4 * (32 * 16 + 3 * (16 * 16 + 16))
    assert run["bytes"]["weights_read_per_step"] == own  # the encoder is not read
    assert "Decoder is a part of Whisper: of the weights only its own" in run["notes"][0]
    assert run["bytes"]["kv_read_per_step"] == run["bytes"]["kv_allocated"] > 0
    assert run["bytes"]["kv_allocated"] % (2 * 10 * 16 * 4) == 0  # keys and values, both found


@pytest.mark.parametrize(
    ("script", "call"),
    [
        ("BATCH_OBJECT", "1 x 1 tokens in argument 0"),
        ("FORWARD_IN_METHOD", "GPT.forward: 1 x 1 tokens in argument 0"),
        ("SAMPLER_IN_METHOD", "1 x 1 tokens in argument 0"),
    ],
)
def test_what_a_method_does_around_the_model_is_beside_the_step(bench, script, call):
    run = recorded(bench, named(script))
    assert (run["step"]["module"], run["step"]["call"]) == ("GPT", call)


def test_of_two_methods_of_one_model_the_outer_one_is_the_step(bench):
    run = recorded(bench, nested.METHOD_IN_METHOD)
    assert run["step"]["call"] == "Decoder.decode_one: 1 x 1 tokens in argument 0"


def test_a_module_of_embeddings_is_not_the_step(bench):
    run = recorded(bench, nested.TIED)
    assert run["step"]["call"] == "GPT.forward: 1 x 1 tokens in argument 0"
    assert run["bytes"]["weights_read_per_step"] == scripts.WEIGHTS + 2 * 16 * 4  # and the norm


def test_a_language_model_fed_embeddings_within_a_larger_one(bench):
    run = recorded(bench, nested.EMBEDDED)
    assert run["step"]["module"] == "LM"


def test_a_layer_that_runs_several_times_is_not_the_step(bench):
    run = recorded(bench, nested.SHARED_LAYER)
    assert run["step"]["module"] == "GPT"
    assert run["step"]["call"].startswith("GPT.forward: 1 x 1")


def test_flat_tokens_of_several_sequences(bench):
    run = recorded(bench, nested.FLAT)
    assert run["step"]["tokens"] == 4
    assert run["step"]["prefill_calls_seen"] == 1


def test_a_decode_method_without_a_cache(bench):
    run = recorded(bench, nested.STEP_OF_DECODER)
    assert run["step"]["call"].startswith("Translator.decode: 1 x 2 tokens in argument 0")
    assert any("nothing is cached" in note for note in run["notes"])


def test_a_small_serving_engine(bench):
    run = recorded(bench, nested.ENGINE)
    step, sizes = run["step"], run["bytes"]
    assert (step["module"], step["tokens"], step["prefill_calls_seen"]) == ("Model", 3, 1)
    assert any("beside the step" in note and "Sampler.forward" in note for note in run["notes"])
    position = 2 * 2 * 16 * 4  # bytes of keys and values in two layers
    assert sizes["kv_allocated"] == 200 * 4 * position
    assert sizes["kv_source"].startswith("pages in use")
    assert sizes["kv_read_per_step"] % position == 0
    assert 3 * 20 < sizes["kv_read_per_step"] // position < 3 * 70
    assert sizes["weights_read_per_step"] == 4 * (2 * (16 * 48 + 48) + 16 * 32)


def test_a_method_taken_before_is_told(bench):
    said = refused(bench, nested.BOUND)
    assert "GPT.forward makes a step, but was not called again" in said
    assert "reference that was taken before" in said


@pytest.mark.parametrize("call", ["model(", "model.forward("])
def test_warming_up_for_a_capture_is_no_step(bench, call):
    text = nested.WARM_UP_FOR_CAPTURE.replace("model(", call)
    step = recorded(bench, text)["step"]
    assert (step["batch"], step["tokens"]) == (3, 3)
    assert 58 <= step["decode_steps_seen"] <= 60


def test_training_is_told(bench):
    assert "GPT was called 9 times in training mode" in refused(bench, nested.TRAINING)


def test_several_tokens_per_call_are_told(bench):
    said = refused(bench, scripts.LOOKUP)
    assert "GPT is fed 3 to 5 tokens at once" in said
    assert "prompt lookup" in said


def test_sequences_packed_into_a_row_are_counted(bench):
    run = recorded(bench, scripts.PACKED)
    assert run["step"]["tokens"] == run["step"]["batch"] == 4
    assert run["step"]["tokens_source"] == "the call: one per sequence, packed into one row"
    assert run["step"]["prefill_calls_seen"] == 1


def test_beams_are_no_sequences(bench):
    run = recorded(bench, scripts.BEAMS)
    assert run["step"]["batch"] == 8
    assert run["step"]["tokens"] == 2
    assert (
        "8 rows, 4 beams per sequence (beam_size of beam_search())" in run["step"]["tokens_source"]
    )


def test_beams_of_unknown_number_are_told(bench):
    text = scripts.BEAMS.replace("beam_size", "k")
    run = recorded(bench, text)
    assert run["step"]["tokens"] == 8
    assert "--tokens-per-step" in run["step"]["tokens_source"]


def test_turns_of_a_chat(bench):
    run = recorded(bench, scripts.CHAT)
    assert run["step"]["decode_steps_seen"] == 100
    assert run["step"]["prefill_calls_seen"] == 4
