"""A run without the recorder decides whom a failure is blamed on; exit codes tell the rest."""

import json
import sys

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from gaptrace_collectors.control import Control  # noqa: E402
from gaptrace_collectors.running import Alone  # noqa: E402
from gaptrace_collectors.targets import Target, defines_build  # noqa: E402
from tests.collectors.conftest import LOOP, MODEL, QUICK  # noqa: E402

DECODE = "token = model(token)[:, -1:].argmax(-1)"
# How a script can tell that it is being recorded.
RECORDED_BUILD = (
    "'gaptrace_collectors.recorder' in sys.modules and '--control' not in sys.orig_argv"
)
RECORDED = "'gaptrace_collectors' in sys.modules"


def failing(where):
    return LOOP.replace(DECODE, f"{DECODE}\n        assert not ({where}), 'no more'")


def test_a_script_that_fails_by_itself_keeps_its_exit_code(bench):
    done = bench.collect("--modes", "eager", *QUICK, bench.script(failing("_ == 20")), "90")
    assert done.code == 1, done.stderr
    run = done.run("eager")
    assert run["failure"]["kind"] == "script_error"
    assert run["failure"]["reason"].endswith("no more; the script fails by itself as well")
    assert run["control"]["outcome"] == "fails"
    assert run["control"]["exit_code"] == 1


def test_a_script_that_runs_without_the_recorder_is_not_to_blame(bench):
    text = failing(f"{RECORDED} and _ == 20")
    done = bench.collect("--modes", "eager,compiled", *QUICK, bench.script(text), "90")
    assert done.code == 125, done.stderr
    run = done.run("eager")
    assert run["failure"]["kind"] == "recorder_error"
    assert "the fault is gaptrace's" in run["failure"]["reason"]
    assert run["control"]["outcome"] == "runs"
    assert not (done.root / "compiled").exists()


def test_a_mode_in_which_alone_the_script_raises_fails_and_others_go_on(bench):
    text = failing(f"{RECORDED} and _ == 20 and type(model)._compiled_call_impl is None and"
                   " getattr(model, 'compiled_once', False)")  # fmt: skip
    text = text.replace(
        "model = Model().eval()",
        "model = Model().eval()\n"
        "own = nn.Module.compile\n"
        "def noted(self, *args, **kwargs):\n"
        "    self.__dict__['compiled_once'] = True\n"
        "    own(self, *args, **kwargs)\n"
        "nn.Module.compile = noted",
    )
    modes = "eager,compiled,as-is"
    done = bench.collect("--modes", modes, *QUICK, bench.script(text), "90")
    assert done.code == 0, done.stderr
    run = done.run("compiled")
    assert (run["status"], run["failure"]["kind"]) == ("mode_failed", "mode_error")
    assert "it fails in compiled only" in run["failure"]["reason"]
    assert done.run("as-is")["status"] == "ok"


BUILD = (
    MODEL
    + """
import sys

def build():
    model = Model().eval()
    token = torch.zeros(2, 1, dtype=torch.long)
    calls = []

    def step():
        calls.append(1)
        assert len(calls) != 20 or WHERE, "no more"
        return model(token)

    return step
"""
)


@pytest.mark.parametrize(
    ("where", "kind", "code"),
    [("False", "script_error", 1), (f"not ({RECORDED_BUILD})", "recorder_error", 125)],
    ids=["by itself", "under the recorder"],
)
def test_a_step_of_build_is_controlled_as_well(bench, where, kind, code):
    script = bench.script(BUILD.replace("WHERE", where))
    done = bench.collect("--modes", "eager", *QUICK, script)
    assert done.code == code, done.stderr
    assert done.run("eager")["failure"]["kind"] == kind


def test_nothing_that_was_asked_for_is_not_success(bench):
    if torch.cuda.is_available():
        pytest.skip("needs a machine where nothing can be captured")
    done = bench.collect("--modes", "graph", *QUICK, bench.script(LOOP), "90")
    assert done.code == 125
    assert "nothing that was asked for could be recorded" in done.stderr
    assert "hint: graph: record it on a machine with a GPU" in done.stderr


def test_captured_modes_are_left_out_with_one_sentence_on_a_cpu(bench):
    if torch.cuda.is_available():
        pytest.skip("needs a machine where nothing can be captured")
    modes = "eager,graph,compiled-graph"
    done = bench.collect("--modes", modes, *QUICK, bench.script(LOOP), "90")
    assert done.code == 0, done.stderr
    assert done.stderr.count("no CUDA device") == 1
    index = json.loads((done.root / "collect.json").read_text())
    assert [cell["status"] for cell in index["cells"]] == ["ok", "skipped", "skipped"]
    assert sorted(path.name for path in done.root.iterdir()) == ["collect.json", "eager"]


# --- the control by itself


def control(tmp_path, text):
    script = tmp_path / "script.py"
    script.write_text(text)
    return Control(Target("script", str(script), (), (sys.executable,)), Alone(), str(tmp_path))


def nothing():
    """What is done while the control runs."""


def test_another_error_is_told(tmp_path):
    verdict = control(tmp_path, "raise KeyError('x')").verdict(None, "ValueError: y", 0.0, nothing)
    assert verdict.sentence == "the script fails by itself as well, with KeyError: 'x'"


def test_a_control_ends_when_its_time_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr("gaptrace_collectors.control._LEAST_S", 0.2)
    text = "import time\nwhile True:\n    time.sleep(1)"
    verdict = control(tmp_path, text).verdict(None, "ValueError: y", 0.0, nothing)
    assert verdict.outcome == "unknown"
    assert "had not failed after" in verdict.sentence


def test_it_is_run_once_for_each_batch(tmp_path):
    mark = tmp_path / "runs"
    one = control(tmp_path, f"open({str(mark)!r}, 'a').write('x')")
    for batch in (None, None, 8):
        assert one.verdict(batch, None, 1.0, nothing).outcome == "runs"
    assert mark.read_text() == "xx"


def test_scripts_for_build_are_told_from_others(tmp_path):
    path = tmp_path / "script.py"
    for text, builds in (("def build():\n    ...", True), ("def rebuild():\n    ...", False)):
        path.write_text(text)
        assert defines_build(str(path)) is builds
