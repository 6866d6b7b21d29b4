"""Modes that are asked for by name are recorded, whatever the script compiles by itself."""

import json

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from gaptrace_collectors import own_compile  # noqa: E402
from tests.collectors.conftest import LOOP, QUICK  # noqa: E402

MADE = "model = Model().eval()"
OWN = {
    "torch.compile(model)": f"{MADE}\nmodel = torch.compile(model)",
    "model.compile": f"{MADE}\nmodel.compile()",
    "forward": f"{MADE}\nmodel.forward = torch.compile(model.forward)",
    "a part": "part = torch.compile(dynamic=False)(lambda x: torch.relu(x) + 1)\n"
    "Model.forward = lambda self, ids: self.head(part(self.embed(ids)))\n" + MADE,
}


@pytest.mark.parametrize("how", OWN)
def test_modes_given_by_hand_are_obeyed(bench, how):
    script = bench.script(LOOP.replace(MADE, OWN[how]))
    done = bench.collect("--modes", "eager", *QUICK, script, "90")
    assert done.code == 0, done.stderr
    assert not (done.root / "as-is").exists()
    run = done.run("eager")
    assert run["status"] == "ok"
    assert own_compile.NOTE in run["notes"]
    assert not [event for event in done.trace("eager") if "Compiled" in str(event.get("name"))]
    assert "for the modes asked for by name that is switched off" in done.stderr


def test_modes_that_nobody_named_give_way_and_the_reason_is_kept(bench):
    script = bench.script(LOOP.replace(MADE, OWN["model.compile"]))
    done = bench.collect(*QUICK, script, "90")
    assert done.code == 0, done.stderr
    index = json.loads((done.root / "collect.json").read_text())
    assert index["modes"] == ["as-is"]
    reason = index["as_is_reason"]
    assert reason.startswith("the script compiles or captures the step by itself (model.compile())")
    assert reason in done.run("as-is")["notes"]
    assert reason in done.stderr


def test_what_torch_and_the_recorder_compile_goes_on(monkeypatch):
    made = []
    monkeypatch.setattr(torch, "compile", lambda model=None, *args, **kwargs: made.append(model))
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self: made.append(self))
    own_compile.switch_off()

    def mine(x):
        return x

    linear = torch.nn.Linear(1, 1)
    assert torch.compile(mine) is mine
    assert torch.compile(dynamic=True)(mine) is mine
    assert torch.compile(linear) is linear
    linear.compile()
    assert made == []
    attention = torch.nn.functional.multi_head_attention_forward
    torch.compile(attention)  # torch's own, as flex attention is
    assert made == [attention]


REPLAYS = """
import torch

base = torch.cuda.CUDAGraph.__mro__[1]  # of a machine without CUDA, where it does nothing
base.replay = lambda self: None
graph = object.__new__(torch.cuda.CUDAGraph)
graph._tracker = None
for _ in range(90):
    graph.replay()
"""


def test_a_capture_of_the_script_cannot_be_switched_off(bench):
    if torch.cuda.is_available():
        pytest.skip("needs a machine on which a graph can be one that does nothing")
    script = bench.script(REPLAYS)
    done = bench.collect("--modes", "eager", *QUICK, script)
    assert done.code == 125, done.stderr
    run = done.run("eager")
    assert (run["status"], run["failure"]["kind"]) == ("mode_failed", "captured_by_script")
    assert "hint: eager: --modes as-is records the script with its own graphs" in done.stderr
    done = bench.collect("--force", *QUICK, script)
    assert done.code == 0, done.stderr
    assert done.run("as-is")["step"]["call"] == "CUDAGraph.replay"
    reason = "the script compiles or captures the step by itself (its own CUDA graph)"
    assert f"as-is: {reason}" in done.stderr
