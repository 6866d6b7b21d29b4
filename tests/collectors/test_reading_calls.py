"""What is a decode step, what holds a cache, and what its tensors weigh."""

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402

from gaptrace_collectors import tensors  # noqa: E402
from gaptrace_collectors.call_history import CallHistory  # noqa: E402
from gaptrace_collectors.decode_call import (  # noqa: E402
    Call,
    StepReader,
    read_call,
    read_numbers,
)
from gaptrace_collectors.steadiness import Observation  # noqa: E402


def ids(*shape):
    return torch.zeros(*shape, dtype=torch.long)


@pytest.mark.parametrize(
    ("args", "kwargs", "last", "expected"),
    [
        ((ids(3, 1),), {}, None, (3, 1)),
        ((ids(2, 7),), {}, None, (2, 7)),
        ((ids(1),), {}, None, (1, 1)),
        ((torch.tensor(5),), {}, None, (1, 1)),
        ((ids(6),), {}, None, (1, 6)),  # a prompt without a batch dimension
        ((ids(6),), {}, 6, (6, 1)),  # six again: six sequences
        ((torch.zeros(2, 1, 8),), {}, None, (2, 1)),  # embeddings
        ((), {"attention_mask": ids(1, 9), "input_ids": ids(1, 1)}, None, (1, 1)),
        ((), {"decoder_input_ids": ids(4, 1), "input_ids": ids(4, 9)}, None, (4, 1)),
    ],
)
def test_sequences_and_length(args, kwargs, last, expected):
    call = read_call(args, kwargs, last)
    assert (call.sequences, call.length) == expected
    assert call.is_decode == (expected[1] == 1)


@pytest.mark.parametrize("argument", [torch.zeros(2, 8), torch.zeros(1, 3, 8, 8), ids(1, 2, 3)])
def test_what_is_no_language_model_call(argument):
    assert read_call((argument,), {}) is None


def test_no_tensor_at_all():
    assert read_call((1, "text"), {"flag": True}) is None


def test_tokens_within_a_batch():
    call = read_call(({"input_ids": ids(2, 1), "mask": ids(2, 9)},), {})
    assert (call.sequences, call.length, call.where) == (2, 1, "argument 0, input_ids")
    call = read_call(((ids(3, 1), None),), {})
    assert (call.sequences, call.where) == (3, "argument 0, argument 0")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(7, (1, 1)), ([1, 2, 3], (1, 3)), ([[1], [2]], (2, 1)), ([[1], [2, 3]], None), (True, None)],
)
def test_tokens_as_plain_numbers(value, expected):
    call = read_numbers((value,), {})
    assert (None if call is None else (call.sequences, call.length)) == expected


# --- with the call before


def forward(input_ids, positions=None, cu_seqlens=None, block_tables=None):
    """The signature that names the arguments."""


def counted(*shape):
    return torch.arange(torch.Size(shape).numel()).view(shape)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_call_that_repeats_the_last_one_with_one_more_token_grows(batch):
    history = CallHistory(forward)
    tokens = counted(batch, 9)
    assert not history.read((tokens[:, :5],), {}).is_decode
    call = history.read((tokens[:, :6],), {})
    assert (call.sequences, call.length, call.grows, call.is_decode) == (batch, 6, True, True)
    moved = history.read((tokens[:, 1:7],), {})  # the context is full and moves on
    assert moved.grows
    assert not history.read((tokens[:, 2:5],), {}).is_decode  # another prompt
    assert not history.read((tokens[:, 2:5],), {}).is_decode  # the same once more
    assert not history.read((tokens[:, 3:7],), {}).is_decode  # one longer, but not its sequel


def test_embeddings_grow_as_well():
    history = CallHistory(forward)
    tokens = torch.randn(1, 6, 4)
    history.read((tokens[:, :5],), {})
    assert history.read((tokens,), {}).grows


@pytest.mark.parametrize("shape", [(4,), (1, 4)])
def test_positions_tell_a_prompt_from_sequences_in_a_row(shape):
    history = CallHistory(forward)
    prompt = history.read((ids(*shape), torch.arange(4).view(shape)), {})
    assert (prompt.sequences, prompt.length) == (1, 4)
    apart = history.read((ids(*shape), torch.tensor([9, 4, 4, 7]).view(shape)), {})
    assert (apart.sequences, apart.length, apart.packed) == (4, 1, True)
    assert not history.read((ids(*shape), torch.tensor([0, 1, 0, 1]).view(shape)), {}).is_decode


def test_sequences_at_neighbouring_positions_are_told_by_the_next_call():
    history = CallHistory(forward)
    assert not history.read((ids(1, 2), torch.tensor([[5, 6]])), {}).is_decode
    assert history.read((ids(1, 2), torch.tensor([[6, 7]])), {}).sequences == 2


def test_boundaries_and_block_tables_tell_the_sequences():
    one_each = CallHistory(forward).read((ids(1, 3),), {"cu_seqlens": torch.arange(4)})
    assert (one_each.sequences, one_each.length) == (3, 1)
    mixed = CallHistory(forward).read((ids(1, 6),), {"cu_seqlens": torch.tensor([0, 1, 6])})
    assert not mixed.is_decode
    tables = CallHistory(forward).read((ids(1, 3),), {"block_tables": ids(3, 8)})
    assert (tables.sequences, tables.length) == (3, 1)


def test_a_found_step_is_read_without_its_history():
    packed = StepReader(Call(4, 1, "input_ids", packed=True))
    assert packed.read((ids(1, 4),), {"max_seqlen_q": 1}, 4).is_decode
    assert not packed.read((ids(1, 4),), {"max_seqlen_q": 4}, 4).is_decode
    assert not packed.read((ids(1, 9),), {}, 4).is_decode
    growing = StepReader(Call(1, 6, "idx", grows=True))
    lengths = [6, 7, 8, 8, 3, 4]
    read = [growing.read((ids(1, length),), {}, 1).is_decode for length in lengths]
    assert read == [True, True, True, True, False, True]
    silent = StepReader(Call(2, 1, "Block within Engine.step"), silent=True)
    assert silent.read((), {}, 2) == Call(2, 1, "Block within Engine.step")
    assert StepReader(Call(1, 1, "idx")).read((), {}, 1) is None


def test_cache_names():
    caches = [
        "past_key_values.layers[3].keys",
        "step.model.k_cache_0",
        "step.model.k[2]",
        "module.layers.1.kv",
        "step.cache['v']",
        "past_key_values.layers[0].recurrent_states[0]",
    ]
    others = ["step.token", "module.layers.0.attention.kv.weight_int4pack", "step.monkeys"]
    assert [name for name in caches + others if tensors.is_cache_name(name)] == caches


class _Holder:
    def __init__(self):
        self.layers = [{"k": torch.zeros(1, 2)}]


def test_tensors_are_found_through_closures_attributes_and_globals():
    holder, token, model = _Holder(), ids(1), nn.Linear(2, 2)
    model.register_buffer("table", torch.zeros(3))

    @torch.no_grad()
    def step():
        return model(holder.layers[0]["k"]) + token

    step.extra = (torch.ones(1),)
    found = dict(tensors.reachable(step, "step"))
    assert found["step.holder.layers[0]['k']"] is holder.layers[0]["k"]
    assert found["step.token"] is token
    assert found["step.model.table"] is model.table
    assert found["step.extra[0]"] is step.extra[0]
    assert not any(isinstance(tensor, nn.Parameter) for tensor in found.values())


def test_a_cache_that_grows_is_told_from_one_that_stays():
    holder = _Holder()
    holder.fixed = torch.zeros(4, 4)
    observation = Observation(holder, "holder")
    kept = []
    for length in (2, 3, 4):
        kept.append(holder.layers[0]["k"])
        holder.layers[0]["k"] = torch.zeros(1, length + 100)
        observation.note({"token": ids(1)})
    assert [item.what for item in observation.grew_state()] == ["holder.layers[0]['k']"]
    section = observation.section()
    assert section["moved"] == ["holder.layers[0]['k']"]
    rows = {row["name"]: row for row in section["inputs"]}
    assert rows["holder.fixed"]["address"] == rows["holder.fixed"]["shape"] == "constant"
    assert rows["token"]["kind"] == "direct"
    assert rows["holder.layers[0]['k']"]["moves"] == 2


def test_bytes_count_tied_weights_once_and_embeddings_not_as_read():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 4)  # 160 bytes, used as the head too
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embed.weight
            self.positions = nn.Embedding(5, 4)  # 80 bytes, gathered only
            self.register_buffer("k_cache", torch.zeros(2, 2))
            self.register_buffer("weight_int4pack", torch.zeros(6, dtype=torch.int32))

    section = tensors.byte_section(Tied(), {})
    assert section["parameters"] == {"float32": 160 + 80}
    assert section["buffers"] == {"float32": 16, "int4 (packed)": 24}
    assert section["weights_total"] == 160 + 80 + 24
    assert section["weights_read_per_step"] == 160 + 24
