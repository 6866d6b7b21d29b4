"""What a script compiles inside its step makes it as-is, what it compiles beside it does not."""

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from tests.collectors import compiled_scripts as scripts  # noqa: E402
from tests.collectors.conftest import QUICK  # noqa: E402

EAGER = ("--modes", "eager", *QUICK)


@pytest.mark.parametrize(
    ("script", "how"),
    [
        ("COMPILED_NORM", "torch.compile on scaled"),
        ("WARMED_NORM", "torch.compile on scaled"),
        ("DECORATED", "torch.compile on Block.mlp"),
        ("COMPILED_STEP", "torch.compile on decode_one_token"),
    ],
)
def test_a_part_of_the_step_that_is_compiled_makes_it_as_is(bench, script, how):
    done = bench.collect(*QUICK, bench.script(getattr(scripts, script)))
    assert done.code == 0, done.stderr
    run = done.run("as-is")
    assert run["status"] == "ok"
    assert len([note for note in run["notes"] if "recorded as-is" in note and how in note]) == 1
    assert done.stderr.count(how) == 2  # when it is found, and in the summary
    assert not (done.root / "eager").exists()
    assert run["step"]["module"] == "GPT"


@pytest.mark.parametrize("script", ["MASK_BUILDER", "FLEX", "DISABLED"])
def test_what_runs_beside_the_step_or_belongs_to_torch_keeps_the_modes(bench, script):
    done = bench.collect(*EAGER, bench.script(getattr(scripts, script)))
    assert done.code == 0, done.stderr
    assert done.run("eager")["status"] == "ok"
    beside = [note for note in done.run("eager")["notes"] if "beside the step" in note]
    assert len(beside) == (script == "MASK_BUILDER")
