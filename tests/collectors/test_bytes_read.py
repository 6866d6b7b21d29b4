"""Bytes that one step reads: as operators were given them, pages in use, or withheld."""

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402

from gaptrace_collectors.bytes_read import (  # noqa: E402
    COMPILED_BY_SCRIPT,
    ReadsObserver,
    unobserved_weights,
)
from gaptrace_collectors.device import Device  # noqa: E402
from gaptrace_collectors.regions import Regions  # noqa: E402
from gaptrace_collectors.runners import Runner  # noqa: E402
from gaptrace_collectors.tensors import byte_section, cache_tensors  # noqa: E402

WIDTH = 4


def observe(model, *args, why_not="", **kwargs):
    """What one call of a model was seen to read."""
    observer = ReadsObserver(model, model, "module", model.forward, model, Device())
    observer.why_not = why_not
    with torch.no_grad():
        observer.handler(Runner(model), args, kwargs)
    return observer


# --- regions of a storage


def test_a_view_counts_once_and_overlaps_count_once():
    tensor = torch.zeros(10, 4)
    regions = Regions(160)
    regions.read(tensor[2:5])
    regions.read(tensor[2:5].t())
    regions.read(tensor[4:6])
    assert regions.bytes == 4 * 4 * 4  # rows 2 to 5


def test_a_part_of_every_row_and_repeated_dimensions():
    tensor = torch.zeros(2, 8, 4)
    regions = Regions(256)
    regions.read(tensor[:, :3])
    regions.read(tensor[:, :5])
    regions.read(tensor[:, None, :5].expand(2, 3, 5, 4))
    assert regions.bytes == 2 * 5 * 4 * 4


def test_gathered_rows_count_once():
    table = torch.zeros(10, 4)
    regions = Regions(160)
    regions.read_rows(table, torch.tensor([1, 3, 3]))
    regions.read_rows(table, torch.tensor([[3, -1]]))
    assert regions.bytes == 3 * 16
    regions.read(table)
    assert regions.bytes == 160


# --- weights


class Experts(nn.Module):
    """Four experts of 16 x 16; which ones are used is told."""

    def __init__(self, way):
        super().__init__()
        self.experts = nn.Parameter(torch.zeros(4, 16, 16, dtype=torch.bfloat16))
        self.way = way

    def forward(self, x, chosen):
        if self.way == "loop":
            return sum(x @ self.experts[n] for n in chosen.tolist())
        if self.way == "gather":
            return torch.bmm(x.expand(len(chosen), 1, 16), self.experts[chosen])
        counts = torch.zeros(4, dtype=torch.int32)
        counts[chosen] = 1
        offs = counts.cumsum(0, dtype=torch.int32)
        return torch._grouped_mm(x.repeat(len(chosen), 1), self.experts, offs=offs)


@pytest.mark.parametrize("way", ["loop", "gather", "grouped"])
def test_experts_that_were_used(way):
    seen = observe(Experts(way), torch.zeros(1, 16).bfloat16(), torch.tensor([0, 2]))
    assert seen.weights.bytes == 2 * 16 * 16 * 2
    assert "those that were used" in seen.weights.source


class Towers(nn.Module):
    """A prompt runs both towers, a step one; the head is tied to the embedding."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(WIDTH, WIDTH))
        self.embed = nn.Embedding(8, WIDTH)
        self.positions = nn.Embedding(16, WIDTH)
        self.decoder = nn.Sequential(nn.Linear(WIDTH, WIDTH))

    def forward(self, ids, image=None):
        x = self.embed(ids) + self.positions(ids)
        if image is not None:
            x = x + self.encoder(image)
        return self.decoder(x) @ self.embed.weight.t()


def test_what_only_the_prompt_runs_is_not_counted_and_tied_weights_count_once():
    seen = observe(Towers(), torch.zeros(1, 1, dtype=torch.long))
    assert seen.weights.bytes == (WIDTH * WIDTH + WIDTH) * 4 + 8 * WIDTH * 4


class Opaque(nn.Module):
    """Its kernel reads weights without torch knowing of it, as a Triton kernel does."""

    def __init__(self, shape, name="weight"):
        super().__init__()
        self.register_parameter(name, nn.Parameter(torch.zeros(shape)))

    def forward(self, x):
        return x + 1


class Holder(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return self.out(self.inner(x))


def test_weights_of_unreported_kernels_count_whole_where_their_module_ran():
    seen = observe(Holder(Opaque((WIDTH, WIDTH))), torch.zeros(1, WIDTH))
    assert seen.weights.bytes == 2 * WIDTH * WIDTH * 4
    assert "64 bytes counted whole" in seen.weights.source


class Packed(nn.Module):
    """Quantised weights in buffers, for a kernel that torch does not report."""

    def __init__(self):
        super().__init__()
        self.register_buffer("qweight", torch.zeros(8, dtype=torch.int32))
        self.register_buffer("scales", torch.zeros(4))

    def forward(self, x):
        return x + 1


def test_packed_buffers_of_unreported_kernels_count_whole():
    seen = observe(Holder(Packed()), torch.zeros(1, WIDTH))
    assert seen.weights.bytes == 32 + 16 + WIDTH * WIDTH * 4


def test_experts_of_unreported_kernels_are_withheld():
    seen = observe(Holder(Opaque((8, WIDTH, WIDTH), "experts")), torch.zeros(1, WIDTH))
    assert seen.weights.bytes is None
    assert "inner.experts" in seen.weights.source
    assert "--weight-bytes" in seen.weights.source


def test_without_an_observed_step_experts_and_towers_are_withheld():
    assert unobserved_weights(Experts("loop"), 5, "sizes", "why").bytes is None
    assert "encoder" in unobserved_weights(Towers(), 5, "sizes", "why").source
    plain = unobserved_weights(nn.Sequential(nn.Linear(2, 2)), 5, "sizes", "why")
    assert (plain.bytes, plain.source) == (5, "sizes; why")


def test_parameters_without_an_address_are_not_taken_for_tied():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)).to("meta")
    assert byte_section(model, {})["weights_total"] == 32


# --- caches


class Cached(nn.Module):
    """Attention over a cache of 16 positions; `given`: the part that the kernel is given."""

    def __init__(self, given):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("k_cache", torch.zeros(1, 2, 16, WIDTH))
        self.register_buffer("v_cache", torch.zeros(1, 2, 16, WIDTH))
        self.given = given

    def forward(self, x, position):
        q = self.q(x).view(1, 1, 1, WIDTH).expand(1, 2, 1, WIDTH)
        self.k_cache.index_copy_(2, position, q)
        self.v_cache.index_copy_(2, position, q)
        k, v = self.k_cache[:, :, self.given], self.v_cache[:, :, self.given]
        return nn.functional.scaled_dot_product_attention(q, k, v)


ONE = 2 * 2 * WIDTH * 4  # bytes of one position: keys and values of two heads


@pytest.mark.parametrize(
    ("given", "positions"),
    [(slice(None), 16), (slice(0, 5), 5), (slice(8, 12), 4)],  # static, sliced, a sliding window
)
def test_of_a_cache_the_part_that_kernels_are_given(given, positions):
    seen = observe(Cached(given), torch.zeros(1, WIDTH), torch.tensor([3]))
    assert seen.kv.bytes == positions * ONE
    words = "all that is allocated" if positions == 16 else f"of the {16 * ONE:,} bytes allocated"
    assert words in seen.kv.source


class Written(Cached):
    """Only writes by operators: the attention kernel is none that torch reports."""

    def forward(self, x, position):
        self.k_cache.index_copy_(2, position, x.view(1, 1, 1, WIDTH).expand(1, 2, 1, WIDTH))
        return self.q(x)


def test_a_cache_read_by_unreported_kernels_is_withheld():
    seen = observe(Written(None), torch.zeros(1, WIDTH), torch.tensor([3]))
    assert seen.kv.bytes is None
    assert "--kv-bytes" in seen.kv.source


class Context:
    block_tables = None
    context_lens = None


_CONTEXT = Context()


def get_context():
    return _CONTEXT


class Paged(nn.Module):
    """A pool of 100 pages of 4 positions, read by a kernel that torch does not report."""

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH)
        self.k_cache = torch.zeros(100, 4, 2, WIDTH)
        self.v_cache = torch.zeros(100, 4, 2, WIDTH)

    def forward(self, x):
        context = get_context()
        assert context.block_tables is not None
        return self.q(x)


def test_of_a_pool_the_pages_in_use():
    _CONTEXT.block_tables = torch.tensor([[1, 2, 9], [7, -1, -1]], dtype=torch.int32)
    _CONTEXT.context_lens = torch.tensor([9, 3], dtype=torch.int32)
    seen = observe(Paged(), torch.zeros(2, WIDTH))
    assert seen.kv.bytes == (9 + 3) * ONE
    assert "pages in use" in seen.kv.source
    compiled = observe(Paged(), torch.zeros(2, WIDTH), why_not=COMPILED_BY_SCRIPT)
    assert compiled.kv.bytes == (9 + 3) * ONE


def test_a_pool_without_lengths_is_withheld():
    _CONTEXT.block_tables = torch.tensor([[1, 2, 9]], dtype=torch.int32)
    _CONTEXT.context_lens = None
    seen = observe(Paged(), torch.zeros(1, WIDTH))
    assert seen.kv.bytes is None
    assert "a pool of pages is allocated" in seen.kv.source


class Gathered(Paged):
    """The same pool, its rows gathered by an index."""

    def forward(self, x, rows):
        k = self.k_cache.view(400, 2, WIDTH)[rows]
        v = self.v_cache.view(400, 2, WIDTH)[rows]
        return self.q(x) + (k + v).sum()


def test_of_a_pool_the_rows_that_are_gathered():
    seen = observe(Gathered(), torch.zeros(1, WIDTH), torch.tensor([4, 5, 6, 200]))
    assert seen.kv.bytes == 4 * ONE


def test_caches_keyed_by_modules_of_one_kind_are_all_found():
    caches = {nn.Linear(2, 2): torch.zeros(1, 3), nn.Linear(2, 2): torch.zeros(1, 5)}
    assert len(cache_tensors({"kv_cache": caches}, None, "")) == 2
