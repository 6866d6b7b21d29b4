"""Hugging Face scripts with small random models, in the ways people generate."""

LLAMA = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

def llama(layers=2):
    config = LlamaConfig(
        num_hidden_layers=layers, hidden_size=32, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=64, vocab_size=64, eos_token_id=None, pad_token_id=0,
        initializer_range=0.2,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()

model = llama()
prompt = torch.arange(1, 9)[None]
how = dict(max_new_tokens=60, do_sample=False)
"""

GENERATE = LLAMA + "model.generate(prompt, **how)\n"
BEAMS = LLAMA + "model.generate(prompt.repeat(2, 1), num_beams=3, **how)\n"
UNCACHED = LLAMA + "model.generate(prompt, use_cache=False, **how)\n"
ASSISTED = LLAMA + "model.generate(prompt, assistant_model=llama(1), **how)\n"
LOOKUP = LLAMA + "model.generate(prompt, prompt_lookup_num_tokens=3, **how)\n"
THEN_PLAIN = ASSISTED + "model.generate(prompt, **how)\n"
FORWARD = (
    LLAMA
    + """
with torch.no_grad():
    out = model.forward(prompt)
    for _ in range(60):
        token = out.logits[:, -1:].argmax(-1)
        out = model.forward(token, past_key_values=out.past_key_values)
"""
)

BATCHING = (
    LLAMA.replace(
        "eos_token_id=None", "attn_implementation='paged|eager', eos_token_id=63, bos_token_id=1"
    )
    + """
from transformers import GenerationConfig

settings = GenerationConfig(
    max_new_tokens=60, do_sample=False, eos_token_id=100, pad_token_id=0, num_blocks=64,
    block_size=16, max_batch_tokens=64,
)
if __name__ == "__main__":
    out = model.generate_batch(
        [list(range(1, 4 + n)) for n in range(3)], generation_config=settings
    )
    print("generated", sorted(len(one.generated_tokens) for one in out.values()))
"""
)

MOE = """
import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

config = Qwen3MoeConfig(
    num_hidden_layers=2, hidden_size=32, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
    intermediate_size=64, moe_intermediate_size=16, num_experts=8, num_experts_per_tok=2,
    vocab_size=64, eos_token_id=None, pad_token_id=0, experts_implementation="{experts}",
)
torch.manual_seed(0)
model = Qwen3MoeForCausalLM(config).eval()
model.generate(torch.arange(1, 9)[None], max_new_tokens=60, do_sample=False)
"""

WHISPER = """
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

config = WhisperConfig(
    vocab_size=64, num_mel_bins=8, encoder_layers=1, decoder_layers=2, d_model=32,
    encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64,
    max_source_positions=50, max_target_positions=100, decoder_start_token_id=1, pad_token_id=0,
    bos_token_id=2, eos_token_id=63, init_std=0.2,
)
torch.manual_seed(0)
model = WhisperForConditionalGeneration(config).eval()
model.generation_config.suppress_tokens = [63]
model.generation_config.begin_suppress_tokens = None
model.generate(torch.randn(2, 8, 100), max_new_tokens=70, do_sample=False)
"""

WINDOW = """
import torch
from transformers import Gemma3TextConfig, Gemma3ForCausalLM

config = Gemma3TextConfig(
    num_hidden_layers=2, hidden_size=32, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
    intermediate_size=64, vocab_size=64, eos_token_id=None, pad_token_id=0, sliding_window=5,
    layer_types=["sliding_attention", "full_attention"],
)
torch.manual_seed(0)
model = Gemma3ForCausalLM(config).eval()
model.generate(torch.arange(1, 9)[None], max_new_tokens=60, do_sample=False)
"""
