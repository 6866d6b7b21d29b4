"""Decode scripts with models within models, replaced methods, and a small serving engine."""

from tests.collectors.step_scripts import FORWARD, GPT, LIGHTNING, METHOD, PACKED

SPECULATIVE_IN_ONE = (
    GPT
    + """
class Speculative(nn.Module):
    def __init__(self):
        super().__init__()
        self.target, self.draft = GPT(), GPT(depth=1)

    def generate(self, ids):
        caches, drafting = caches_of(self.target), caches_of(self.draft)
        token = self.target(ids, caches)[:, -1:].argmax(-1)
        self.draft(ids, drafting)
        for _ in range(steps // 4):
            drafted = [token]
            for _ in range(4):
                drafted.append(self.draft(drafted[-1], drafting)[:, -1:].argmax(-1))
            token = self.target(torch.cat(drafted, 1), caches)[:, -1:].argmax(-1)

with torch.no_grad():
    Speculative().eval().generate(prompt)
"""
)

# As OpenAI's Whisper: the decoder is called by a plain object, hooks fill a cache keyed by modules.
WHISPER = (
    GPT
    + """
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding = nn.Embedding(32, 16)
        self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 16))

    def forward(self, x, audio, kv_cache):
        h = self.token_embedding(x)
        k, v = self.k(h), self.v(h)
        if kv_cache:
            k = torch.cat([kv_cache[self.k], k], 1)
            v = torch.cat([kv_cache[self.v], v], 1)
        kv_cache[self.k], kv_cache[self.v] = k, v
        h = self.mlp(nn.functional.scaled_dot_product_attention(h, k, v) + audio.mean(1)[:, None])
        return h @ self.token_embedding.weight.T

class Whisper(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
        self.decoder = Decoder()

    def forward(self, mel, tokens):
        return self.decoder(tokens, self.encoder(mel), {})

class Options:
    beam_size = None
    def __init__(self, beam_size):
        self.beam_size = beam_size

class Task:
    def __init__(self, model, options):
        self.model, self.options, self.kv_cache = model, options, {}

    def logits(self, tokens, audio):
        if tokens.shape[-1] > 3:
            tokens = tokens[:, -1:]
        return self.model.decoder(tokens, audio, kv_cache=self.kv_cache)

    def run(self, mel):
        audio = self.model.encoder(mel).repeat_interleave(self.options.beam_size, 0)
        tokens = torch.arange(3).repeat(len(audio), 1)
        for _ in range(steps):
            token = self.logits(tokens, audio)[:, -1:].argmax(-1)
            tokens = torch.cat([tokens, token], 1)

with torch.no_grad():
    Task(Whisper().eval(), Options(5)).run(torch.randn(2, 7, 16))
"""
)

BATCH_OBJECT = LIGHTNING.replace(
    """        caches = caches_of(self.model)
        token = self.model(ids, caches)[:, -1:].argmax(-1)
        for _ in range(steps):
            token = self.model(token, caches)[:, -1:].argmax(-1)
""",
    """        self.caches = caches_of(self.model)
        return self.predict_step({"input_ids": ids}, 0)

    def predict_step(self, batch, batch_idx):
        return self.model(batch["input_ids"], self.caches)[:, -1:].argmax(-1)
""",
).replace(
    "    lit.generate(prompt)\n",
    "    token = lit.generate(prompt)\n    for n in range(steps):\n"
    '        token = lit.predict_step({"input_ids": token}, n)\n',
)

BOUND = FORWARD.replace(
    "caches = caches_of(model)", "caches, call = caches_of(model), model.forward"
).replace("model.forward(token, caches=caches)", "call(token, caches=caches)")

EMBEDDED = (
    GPT
    + """
class LM(GPT):
    def forward(self, x, caches):
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache)
        return self.head(x)

class Talker(nn.Module):
    def __init__(self):
        super().__init__()
        self.lm, self.vocoder = LM(), nn.Sequential(nn.Linear(16, 16))

talker = Talker().eval()
with torch.no_grad():
    caches = caches_of(talker.lm)
    token = talker.lm(talker.lm.embed(prompt), caches)[:, -1:].argmax(-1)
    for _ in range(steps):
        token = talker.lm(talker.lm.embed(token), caches)[:, -1:].argmax(-1)
    talker.vocoder(torch.randn(1, 1, 16))
"""
)

SHARED_LAYER = FORWARD.replace("enumerate(self.blocks)", "enumerate([self.blocks[0]] * 3)")

# Flat ids and positions, several sequences, as serving engines feed them.
FLAT = PACKED.replace("[None]", "").replace("return self.head(x)", "return self.head(x)\n", 1)

TRAINING = GPT + "for _ in range(9):\n    model.train()(prompt)\n"

# The forward function was replaced by one of another name, and calls go around `__call__`.
REPLACED = FORWARD.replace(
    "@torch.inference_mode()",
    "def fused_forward(self, ids, caches=None):\n    return plain_forward(self, ids, caches)\n\n"
    "plain_forward, GPT.forward = GPT.forward, fused_forward\n\n@torch.inference_mode()",
)

OWN_CALL = FORWARD.replace(
    "class GPT(nn.Module):",
    "class GPT(nn.Module):\n"
    "    def __call__(self, *args, **kwargs):\n"
    "        return self.forward(*args, **kwargs)\n",
).replace("model.forward(", "model(")

STEP_OF_DECODER = (
    GPT
    + """
class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = GPT(), nn.Embedding(32, 16)
        self.encoder = nn.Sequential(nn.Linear(16, 16))
        layer = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2)
        self.out = nn.Linear(16, 32)

    def encode(self, ids):
        return self.encoder(self.source.embed(ids))

    def decode(self, ids, memory):
        return self.decoder(self.target(ids), memory)

model = Translator().eval()
with torch.no_grad():
    memory = model.encode(prompt)
    ids = torch.ones(1, 1, dtype=torch.long)
    for _ in range(steps):
        out = model.out(model.decode(ids, memory)[:, -1:])
        ids = torch.cat([ids, out.argmax(-1)], 1)
"""
)


# A serving loop warms up before it captures; `capturing` stands in for a stream that does.
WARM_UP_FOR_CAPTURE = (
    GPT
    + """
from gaptrace_collectors.captures import Captures

capturing = False
Captures.here = property(lambda self: capturing)
with torch.inference_mode():
    for rows in (4, 2, 1):
        model(torch.zeros(rows, 1, dtype=torch.long), caches_of(model))
        capturing = True
        model(torch.zeros(rows, 1, dtype=torch.long), caches_of(model))
        capturing = False
    caches = caches_of(model)
    token = model(prompt.repeat(3, 1), caches)[:, -1:].argmax(-1)
    for _ in range(steps):
        token = model(token, caches)[:, -1:].argmax(-1)
"""
)

# The sampler is compiled, within a method that is called per token, but beside the model.
SAMPLER_IN_METHOD = BATCH_OBJECT.replace(
    "class Lit(",
    "@torch.compile(backend='eager')\ndef pick(x):\n    return x[:, -1:].argmax(-1)\n\nclass Lit(",
).replace(
    'return self.model(batch["input_ids"], self.caches)[:, -1:].argmax(-1)',
    'return pick(self.model(batch["input_ids"], self.caches))',
)

FORWARD_IN_METHOD = BATCH_OBJECT.replace("return self.model(", "return self.model.forward(")

# Hidden states come from one method, embedding and head are in another of the same model.
METHOD_IN_METHOD = METHOD.replace(
    """        x = self.embed(ids)
        for block, cache in zip(self.blocks, self.caches):
            x = block(x, cache)
        return""",
    """        x = self.run_blocks(self.embed(ids))
        return""",
).replace(
    "    def decode_one",
    """    def run_blocks(self, x):
        for block, cache in zip(self.blocks, self.caches):
            x = block(x, cache)
        return x

    def decode_one""",
)

# Tokens go through a module of embeddings first, the head is tied to it.
TIED = (
    FORWARD.replace(
        "class GPT(nn.Module):",
        """class Embeddings(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        return self.norm(self.words(ids))

class GPT(nn.Module):""",
    )
    .replace(
        "self.embed = nn.Embedding(vocabulary, width)", "self.embed = Embeddings(vocabulary, width)"
    )
    .replace("        self.head = nn.Linear(width, vocabulary, bias=False)\n", "")
    .replace("return self.head(x)", "return x @ self.embed.words.weight.T")
)

# As a small serving engine: flat tokens, pages in a pool, a context that attention asks for, a
# sampler that is compiled. Its attention reads the pool without torch knowing of it.
ENGINE = (
    GPT
    + """
PAGE, PAGES = 4, 200

class Context:
    block_tables = context_lens = slot_mapping = None

_CONTEXT = Context()

def get_context():
    return _CONTEXT

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.k_cache = self.v_cache = torch.tensor([])

    def forward(self, q, k, v):
        context = get_context()
        for row, slot in enumerate(context.slot_mapping.tolist()):
            self.k_cache.numpy()[slot // PAGE, slot % PAGE, 0] = k[row].numpy()
            self.v_cache.numpy()[slot // PAGE, slot % PAGE, 0] = v[row].numpy()
        return torch.from_numpy(q.numpy() + self.v_cache.numpy()[0].mean())

class PagedBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.attention = nn.Linear(width, 3 * width), Attention()

    def forward(self, x):
        return x + self.attention(*self.qkv(x).chunk(3, -1))

class Model(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Embedding(32, width)
        self.layers = nn.ModuleList(PagedBlock(width) for _ in range(2))
        self.lm_head = nn.Linear(width, 32, bias=False)

    def forward(self, input_ids, positions):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(x)

class Sampler(nn.Module):
    @torch.compile(backend="eager")
    def forward(self, logits):
        return logits.argmax(-1)

class Runner:
    def __init__(self):
        self.model, self.sampler = Model().eval(), Sampler()
        pool = torch.zeros(2, 2, PAGES, PAGE, 1, 16)
        for n, layer in enumerate(self.model.layers):
            layer.attention.k_cache, layer.attention.v_cache = pool[0, n], pool[1, n]
        self.block_size = PAGE

    @torch.inference_mode()
    def run(self, ids, positions, lengths):
        pages = -(-max(lengths) // PAGE)
        tables = [[n * 20 + page for page in range(pages)] for n in range(len(lengths))]
        _CONTEXT.block_tables = torch.tensor(tables, dtype=torch.int32)
        _CONTEXT.context_lens = torch.tensor(lengths, dtype=torch.int32)
        _CONTEXT.slot_mapping = torch.arange(len(ids))
        return self.sampler(self.model(ids, positions))

runner, lengths = Runner(), [5, 9, 6]
positions = torch.cat([torch.arange(n) for n in lengths])
runner.run(torch.zeros(20, dtype=torch.long), positions, lengths)
token = torch.zeros(3, dtype=torch.long)
for _ in range(steps):
    lengths = [n + 1 for n in lengths]
    token = runner.run(token, torch.tensor(lengths) - 1, lengths)
"""
)
