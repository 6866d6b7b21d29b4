"""Recording an explicit step: `def build(): ... return step`."""

import re
import sys
import types

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from gaptrace_collectors.build_run import step_facts  # noqa: E402
from gaptrace_collectors.failure import RecorderError  # noqa: E402
from gaptrace_collectors.targets import defines_build  # noqa: E402
from tests.collectors.conftest import COLLECTORS, MODEL, QUICK  # noqa: E402

BUILD = (
    MODEL
    + """
def build():
    torch.manual_seed(1)
    model = Model().eval()
    token = torch.zeros(2, 1, dtype=torch.long)

    @torch.no_grad()
    def step():
        logits = model(token)
        token.copy_(logits[:, -1:].argmax(-1))
        return logits

    step.model = model
    step.batch = 2
    step.reset = lambda: token.zero_()
    step.kv_bytes = 77
    step.label = "two sequences"
    return step

if __name__ == "__main__":
    raise SystemExit("the script itself must not run")
"""
)


@pytest.fixture(scope="module")
def recorded(shared_bench):
    """Eager and compiled, by the CPU backend of Inductor."""
    return shared_bench.collect("--modes", "eager,compiled", *QUICK, shared_bench.script(BUILD))


def test_both_modes_are_recorded(recorded):
    assert recorded.code == 0, recorded.stderr
    for mode in ("eager", "compiled"):
        run = recorded.run(mode)
        assert run["status"] == "ok"
        assert run["entry"] == "build"
        assert len(recorded.marks(mode)) == 6


def test_what_the_step_says_of_itself_is_kept(recorded):
    run = recorded.run("eager")
    assert run["label"] == "two sequences"
    assert (run["step"]["tokens"], run["step"]["batch"]) == (2, 2)
    assert run["step"]["tokens_source"] == "step.batch"
    assert (run["bytes"]["kv_read_per_step"], run["bytes"]["kv_source"]) == (77, "step.kv_bytes")


def test_issue_time_is_the_step_itself(recorded):
    issue = recorded.run("eager")["issue"]
    assert issue["scope"] == "step"
    assert issue["samples_ns"] == issue["call_samples_ns"]


def test_outputs_are_compared_with_the_eager_ones(recorded):
    outputs = recorded.run("compiled")["outputs"]
    assert outputs["status"] in ("equal", "close")
    assert outputs["steps_compared"] >= 1
    assert outputs["against"] == "eager/1"


def test_compile_evidence(recorded):
    run = recorded.run("compiled")
    compiled = run["compile"]
    assert compiled["requested"] is True
    assert compiled["steady"] is True
    assert compiled["frames"] == 1
    assert compiled["recompiles"] == []
    assert compiled["inductor"]["generated_kernels"] >= 1
    assert compiled["inductor"]["nodes_before_fusion"] >= 1
    assert compiled["recompiles_while_measured"] == 0
    # The first call compiled, and none of it is in the measured steps.
    assert compiled["warmup"][0]["compiles"] == 1
    assert compiled["first_call_ns"] > 10 * max(run["unprofiled"]["before"]["host_ns"])
    assert run["steadiness"]["observed"]["compiled regions"] >= 5


def test_the_state_that_the_step_reaches_is_observed(recorded):
    rows = {row["name"]: row for row in recorded.run("eager")["steadiness"]["inputs"]}
    assert rows["step.token"]["address"] == "constant"


@pytest.mark.slow
def test_a_step_that_always_recompiles_never_stands_still(bench):
    text = BUILD.replace(
        "        logits = model(token)\n",
        "        model.count = str(len(model.count)) + model.count\n"
        "        logits = model(token)\n",
    ).replace("torch.relu(self.embed(ids))", "torch.relu(self.embed(ids)) * len(self.count)")
    text = text.replace(
        "    model = Model().eval()\n", "    model = Model().eval()\n    model.count = ''\n"
    )
    short = ("--issue-steps", "2", "--max-seconds", "1")
    done = bench.collect("--modes", "compiled", *QUICK, *short, bench.script(text))
    assert done.code == 0, done.stderr
    run = done.run("compiled")
    compiled = run["compile"]
    assert compiled["steady"] is False
    assert "never stood still" in compiled["note"]
    assert compiled["note"] in run["notes"]
    assert compiled["recompiles_while_measured"] > 0
    assert "count" in compiled["recompiles"][-1]["guard"]


def test_a_step_that_cannot_be_compiled_says_why(bench):
    text = BUILD.replace(
        "    step.model = model\n",
        "    model.compile = lambda: setattr(model, '_compiled_call_impl', broken)\n",
    ).replace(
        "def build():",
        "import torch._dynamo.exc\n\ndef broken(*args):\n"
        "    raise torch._dynamo.exc.Unsupported('no way to trace this')\n\n"
        "def build():",
    )
    text = text.replace("    step.batch = 2\n", "    step.batch = 2\n    step.model = model\n")
    done = bench.collect("--modes", "compiled", *QUICK, bench.script(text))
    assert done.code == 125, done.stderr
    failure = done.run("compiled")["failure"]
    assert failure["kind"] == "compile_error"
    assert "no way to trace this" in failure["reason"]


def test_a_build_that_returns_no_callable_is_refused(bench):
    text = MODEL + "\ndef build():\n    return 3\n"
    done = bench.collect("--modes", "eager", *QUICK, bench.script(text))
    assert done.code == 125
    assert "build() returned int" in done.stderr
    assert "--entry script" in done.stderr


def test_a_step_that_returns_nothing_is_recorded_without_comparison(bench):
    text = BUILD.replace("        return logits\n", "")
    done = bench.collect("--modes", "eager", *QUICK, bench.script(text))
    assert done.code == 0, done.stderr
    assert done.run("eager")["outputs"]["status"] == "not compared"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def build():\n    pass\n", True),
        ("def build(size=3, *, x=1):\n    pass\n", True),
        ("def build(model):\n    pass\n", False),
        ("def build(*, model):\n    pass\n", False),
        ("class A:\n    def build():\n        pass\n", False),
        ("build = 3\n", False),
        ("def build(:\n", False),
    ],
)
def test_which_scripts_are_explicit(tmp_path, text, expected):
    path = tmp_path / "script.py"
    path.write_text(text)
    assert defines_build(str(path)) is expected


def test_attributes_that_make_no_sense_are_refused():
    def step():
        """Nothing."""

    assert (step_facts(step).tokens, step_facts(step).tokens_source) == (1, "assumed")
    step.tokens = "many"
    with pytest.raises(RecorderError, match=r"step\.tokens"):
        step_facts(step)


def test_the_example_of_the_readme_runs(monkeypatch):
    text = (COLLECTORS / "README.md").read_text()
    block = text.split("## `build()` mode")[1].split("`build()` takes")[0]
    lines = [line[4:] for line in block.splitlines() if line.startswith("    ")]
    code = "\n".join(line for line in lines if line).replace('"cuda"', '"cpu"')
    code = code.replace(".cuda()", "")
    assert len(re.findall(r"\n", code.split("def build")[1])) <= 10
    module = types.ModuleType("my_model")

    class Model(torch.nn.Module):
        max_len = 4

        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(8, 8)

        def forward(self, token, pos):
            return self.embed(token) + pos

    module.Model = Model
    monkeypatch.setitem(sys.modules, "my_model", module)
    names = {}
    exec(code, names)
    step = names["build"]()
    assert step().shape == (1, 1, 8)
    assert step_facts(step).module == "Model"
