"""An unmodified `generate` script: its calls are found, its own compilation is kept apart."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

from tests.collectors.conftest import QUICK, WORKLOADS  # noqa: E402

COMPILES_BY_ITSELF = """
import torch
from transformers import CompileConfig, LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    num_hidden_layers=1, hidden_size=32, num_attention_heads=2, num_key_value_heads=1,
    intermediate_size=64, vocab_size=64, eos_token_id=None, pad_token_id=0, initializer_range=0.2,
)
torch.manual_seed(0)
model = LlamaForCausalLM(config).eval()
compiling = CompileConfig(backend="eager", mode=None, fullgraph=False)
compiling._compile_all_devices = True  # else only accelerators are compiled for
prompt = torch.arange(1, 9)[None]
out = model.generate(
    prompt,
    attention_mask=torch.ones_like(prompt),
    max_new_tokens=60,
    do_sample=False,
    cache_implementation="static",
    compile_config=compiling,
)
print(out[0, -4:].tolist())
"""


def test_generate_with_a_dynamic_cache(bench):
    script = WORKLOADS / "hf_generate.py"
    words = ("--tiny", "--tokens", "40", "--prompts", "2")
    done = bench.collect("--modes", "eager", *QUICK, script, *words, name="hf")
    assert done.code == 0, done.stderr
    run = done.run("eager")
    assert run["step"]["module"] == "LlamaForCausalLM"
    assert run["step"]["call"] == "1 x 1 tokens in input_ids"
    assert run["step"]["prefill_calls_seen"] == 2
    assert run["step"]["decode_steps_seen"] == 2 * 39  # the prefill gives the first token
    steady = run["steadiness"]
    # The argument's own name differs between versions of transformers.
    keys = next(name for name in steady["moved"] if name.endswith(".layers[0].keys"))
    assert keys in steady["grew"]
    rows = {row["name"]: row for row in steady["inputs"]}
    assert rows["input_ids"]["kind"] == "direct"
    assert rows[keys]["shape_first"] == [1, 1, 8, 16]
    # Keys and values of two layers in bf16, as long as they were when the profiler came.
    assert run["bytes"]["kv_read_per_step"] % (2 * 2 * 16 * 2) == 0
    assert run["bytes"]["kv_read_per_step"] > 2 * 2 * 16 * 2 * 8


@pytest.mark.slow
def test_its_own_compilation_is_switched_off_in_the_modes(bench):
    done = bench.collect("--modes", "eager", *QUICK, bench.script(COMPILES_BY_ITSELF))
    assert done.code == 0, done.stderr
    run = done.run("eager")
    assert run["status"] == "ok"
    assert run["compile"] is None
    assert any("automatic compilation was switched off" in note for note in run["notes"])
    assert "compiled regions" not in run["steadiness"]["observed"]


@pytest.mark.slow
def test_its_own_compilation_is_recorded_as_it_is(bench):
    done = bench.collect("--modes", "as-is", *QUICK, bench.script(COMPILES_BY_ITSELF))
    assert done.code == 0, done.stderr
    run = done.run("as-is")
    assert run["status"] == "ok"
    assert run["step"]["call"] == "Hugging Face generate, compiled by itself"
    assert run["compile"]["frames"] >= 1
    assert run["steadiness"]["observed"]["compiled regions"] >= 5
    assert len(done.marks("as-is")) == 6
