"""Decode scripts that compile something by themselves, within the step or beside it."""

from tests.collectors.step_scripts import GPT, PLAIN_OBJECT

COMPILED_NORM = (
    GPT.replace("class Block", "def scaled(x):\n    return x * 0.5\n\nclass Block").replace(
        "return x + self.out(y)", "return x + scaled(self.out(y))"
    )
    + """
scaled = torch.compile(scaled, backend="eager")
with torch.no_grad():
    caches = caches_of(model)
    token = model(prompt, caches)[:, -1:].argmax(-1)
    for _ in range(steps):
        token = model(token, caches)[:, -1:].argmax(-1)
"""
)

# Compiled on a call of its own first: nothing compiles any more once the step runs.
WARMED_NORM = COMPILED_NORM.replace(
    "with torch.no_grad():\n",
    "with torch.no_grad():\n    scaled(torch.ones(1, 5, 16)); scaled(torch.ones(1, 1, 16))\n",
    1,
)

DECORATED = (
    GPT.replace(
        "    def forward(self, x, cache=None):",
        "    @torch.compile(backend='eager')\n    def mlp(self, x):\n        return self.out(x)\n\n"
        "    def forward(self, x, cache=None):",
    ).replace("self.out(y)", "self.mlp(y)")
    + COMPILED_NORM.split('backend="eager")\n')[1]
)

COMPILED_STEP = (
    GPT
    + """
def decode_one_token(model, token, caches):
    return model(token, caches)[:, -1:]

with torch.no_grad():
    caches = caches_of(model)
    token = model(prompt, caches)[:, -1:].argmax(-1)
    decode_one_token = torch.compile(decode_one_token, backend="eager")
    for _ in range(steps):
        token = decode_one_token(model, token, caches).argmax(-1)
"""
)

MASK_BUILDER = (
    GPT
    + """
@torch.compile(backend="eager")
def build_mask(n):
    return torch.ones(n, n).tril()

with torch.no_grad():
    caches = caches_of(model)
    build_mask(5)
    token = model(prompt, caches)[:, -1:].argmax(-1)
    for n in range(steps):
        build_mask(6 + n)
        token = model(token, caches)[:, -1:].argmax(-1)
"""
)

FLEX = (
    GPT.replace(
        "y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=q.shape[1] > 1)",
        "y = flex_attention(q[:, None], k[:, None], v[:, None])[:, 0]",
    ).replace(
        "import sys", "import sys\nfrom torch.nn.attention.flex_attention import flex_attention"
    )
    + PLAIN_OBJECT.split("steps = 60\n")[1]
)

DISABLED = COMPILED_NORM.replace(
    'torch.compile(scaled, backend="eager")', "torch.compile(scaled, disable=True)"
)
