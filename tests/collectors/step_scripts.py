"""Small decode scripts in the ways people write them; a GPT with a KV cache, 3 blocks deep."""

GPT = """
import sys
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, cache=None):
        q, k, v = self.qkv(x).chunk(3, -1)
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
            cache[:] = [k, v]
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=q.shape[1] > 1)
        return x + self.out(y)

class GPT(nn.Module):
    def __init__(self, depth=3, width=16, vocabulary=32):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids, caches=None):
        x = self.embed(ids)
        for n, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[n])
        return self.head(x)

def caches_of(model):
    return [[] for _ in model.blocks]

torch.manual_seed(0)
model = GPT().eval()
prompt = torch.arange(1, 6)[None]
steps = 60
"""

# What every variant is to record: the whole model, so all of its weights but the embedding table.
WEIGHTS = 4 * (3 * (16 * 48 + 48 + 16 * 16 + 16) + 16 * 32)

FORWARD = (
    GPT
    + """
@torch.inference_mode()
def generate():
    caches = caches_of(model)
    token = model.forward(prompt, caches)[:, -1:].argmax(-1)
    for _ in range(steps):
        token = model.forward(token, caches=caches)[:, -1:].argmax(-1)

generate()
"""
)

METHOD = (
    GPT
    + """
class Decoder(GPT):
    def start(self, ids):
        self.caches = caches_of(self)
        return self.decode_one(ids)

    def decode_one(self, ids):
        x = self.embed(ids)
        for block, cache in zip(self.blocks, self.caches):
            x = block(x, cache)
        return self.head(x)[:, -1:].argmax(-1)

model = Decoder().eval()
with torch.no_grad():
    token = model.start(prompt)
    for _ in range(steps):
        token = model.decode_one(token)
"""
)

NUMBERS = METHOD.replace(
    "    def decode_one(self, ids):\n",
    "    def decode_one(self, ids):\n        ids = torch.as_tensor(ids).view(1, -1)\n",
).replace("model.decode_one(token)", "model.decode_one(int(token))")

SILENT = METHOD.replace(
    "class Decoder(GPT):\n",
    "class Decoder(GPT):\n    def step(self):\n        self.last = self.decode_one(self.last)\n\n",
).replace(
    "    for _ in range(steps):\n        token = model.decode_one(token)",
    "    model.last = token\n    for _ in range(steps):\n        model.step()",
)

LIGHTNING = (
    GPT
    + """
class Lit(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.probe = nn.Linear(4, 4)

    def generate(self, ids):
        caches = caches_of(self.model)
        token = self.model(ids, caches)[:, -1:].argmax(-1)
        for _ in range(steps):
            token = self.model(token, caches)[:, -1:].argmax(-1)

lit = Lit(model).eval()
with torch.no_grad():
    lit.generate(prompt)
"""
)

PLAIN_OBJECT = (
    GPT
    + """
class Engine:
    def __init__(self, model):
        self.model, self.caches = model, caches_of(model)

    def step(self, ids):
        return self.model(ids, self.caches)[:, -1:].argmax(-1)

engine = Engine(model)
with torch.no_grad():
    token = engine.step(prompt)
    for _ in range(steps):
        token = engine.step(token)
"""
)

DATA_PARALLEL = PLAIN_OBJECT.replace(
    "engine = Engine(model)",
    "engine = Engine(model)\nengine.model = torch.nn.DataParallel(model)",
)

PARTS = (
    GPT
    + """
class Engine:
    def __init__(self, model):
        self.model, self.caches = model, caches_of(model)

    def step(self, ids):
        x = self.model.embed(ids)
        for block, cache in zip(self.model.blocks, self.caches):
            x = block(x, cache)
        return self.model.head(x)[:, -1:].argmax(-1)

engine = Engine(model)
with torch.no_grad():
    token = engine.step(prompt)
    for _ in range(steps):
        token = engine.step(token)
"""
)

TRUNK = (
    GPT
    + """
class Trunk(GPT):
    def forward(self, ids, caches):
        x = self.embed(ids)
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache)
        return x

class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = Trunk()
        self.lm_head = nn.Linear(16, 32)

    def forward(self, ids, caches):
        return self.lm_head(self.trunk(ids, caches))

model = LM().eval()
caches = caches_of(model.trunk)
with torch.no_grad():
    token = model.forward(prompt, caches)[:, -1:].argmax(-1)
    for _ in range(steps):
        token = model.forward(token, caches)[:, -1:].argmax(-1)
"""
)

UNCACHED = (
    GPT
    + """
with torch.no_grad():
    ids = prompt
    for _ in range(steps):
        ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], 1)
"""
)

SPECULATIVE = (
    GPT
    + """
draft = GPT(depth=1).eval()
with torch.no_grad():
    caches, drafting = caches_of(model), caches_of(draft)
    token = model(prompt, caches)[:, -1:].argmax(-1)
    draft(prompt, drafting)
    for _ in range(steps // 4):
        drafted = [token]
        for _ in range(4):
            drafted.append(draft(drafted[-1], drafting)[:, -1:].argmax(-1))
        token = model(torch.cat(drafted, 1), caches)[:, -1:].argmax(-1)
"""
)

LOOKUP = (
    GPT
    + """
with torch.no_grad():
    caches = caches_of(model)
    token = model(prompt, caches)[:, -1:].argmax(-1)
    for n in range(steps):
        fed = torch.cat([token, prompt[:, : 2 + n % 2]], 1)
        token = model(fed, caches)[:, -1:].argmax(-1)
"""
)

PACKED = (
    GPT
    + """
class Packed(GPT):
    def forward(self, input_ids, position_ids):
        x = self.embed(input_ids) + position_ids[..., None]
        for block in self.blocks:
            x = x + block.out(block.qkv(x)[..., :16])
        return self.head(x)

model = Packed().eval()
with torch.no_grad():
    lengths = [5, 7, 6, 5]
    positions = torch.cat([torch.arange(n) for n in lengths])[None]
    model(positions % 32, positions)
    now = torch.tensor(lengths)[None]
    for _ in range(steps):
        model(now % 32, position_ids=now)
        now = now + 1
"""
)

BEAMS = (
    GPT
    + """
def beam_search(model, ids, beam_size=4):
    caches = caches_of(model)
    token = model(ids.repeat(beam_size, 1), caches)[:, -1:].argmax(-1)
    for _ in range(steps):
        token = model(token, caches)[:, -1:].argmax(-1)

with torch.no_grad():
    beam_search(model, prompt.repeat(2, 1))
"""
)

CHAT = (
    GPT
    + """
with torch.no_grad():
    caches = caches_of(model)
    for turn in range(4):
        token = model(prompt + turn, caches)[:, -1:].argmax(-1)
        for _ in range(25):
            token = model(token, caches)[:, -1:].argmax(-1)
"""
)
