"""What is a decode step, what holds a cache, and what its tensors weigh."""

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402

from gaptrace_collectors import tensors  # noqa: E402
from gaptrace_collectors.decode_call import read_call  # noqa: E402
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
