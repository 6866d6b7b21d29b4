"""Recording an unmodified script, as a process: what is left, what is returned, what is printed."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from tests.collectors.conftest import (  # noqa: E402
    COLLECTORS,
    LOOP,
    MODEL,
    QUICK,
    ROOT,
    environment,
)

EAGER = ("--modes", "eager", *QUICK)


@pytest.fixture(scope="module")
def recorded(shared_bench):
    """One eager recording of the loop, looked at by several tests."""
    return shared_bench.collect_fresh(*EAGER, shared_bench.script(LOOP), "60", name="loop")


def test_the_recording_is_whole(recorded):
    assert recorded.code == 0, recorded.stderr
    run = recorded.run("eager")
    assert run["status"] == "ok"
    assert run["entry"] == "script"
    assert run["step"]["module"] == "Model"
    assert run["step"]["call"] == "1 x 1 tokens in argument 0"
    assert run["step"]["decode_steps_seen"] == 60
    assert run["step"]["prefill_calls_seen"] == 1
    assert run["outputs"]["status"] == "reference"
    assert run["steadiness"]["launch_sequence"]["equal"] is True
    assert run["compile"] is None
    assert run["bytes"]["parameters"] == {"float32": 4 * (16 * 8 + 8 * 16 + 16)}
    assert run["bytes"]["weights_read_per_step"] == 4 * (8 * 16 + 16)


def test_every_step_has_one_mark_and_the_last_one_is_open(recorded):
    run = recorded.run("eager")
    assert recorded.marks("eager") == [f"gaptrace.step#{n}" for n in range(6)]
    profiled = run["profiled"]
    assert (profiled["complete"], profiled["open_step"]) == (5, 5)
    assert len(profiled["host_ns"]) == 5


def test_unprofiled_times_stand_on_both_sides(recorded):
    unprofiled = recorded.run("eager")["unprofiled"]
    assert len(unprofiled["before"]["host_ns"]) == 5
    assert len(unprofiled["after"]["host_ns"]) == 5
    assert unprofiled["median_ns"] in unprofiled["before"]["host_ns"]
    assert unprofiled["clock"] == "host"


def test_issue_time_runs_up_to_the_next_decode_call(recorded):
    run = recorded.run("eager")
    issue = run["issue"]
    assert issue["scope"] == "period"
    assert all(a >= b for a, b in zip(issue["samples_ns"], issue["call_samples_ns"], strict=True))
    assert run["issue_ns"] in issue["samples_ns"]


def test_the_execution_trace_is_of_the_open_step_and_its_ids_match(recorded):
    import gzip

    run = recorded.run("eager")
    assert run["profiled"]["execution_trace_step"] == 5
    with gzip.open(recorded.root / "eager" / "1" / run["files"]["execution_trace"]) as file:
        nodes = json.load(file)["nodes"]
    ids = {
        attribute["value"]
        for node in nodes
        for attribute in node["attrs"]
        if attribute["name"] == "rf_id"
    }
    linear = [event for event in recorded.trace("eager") if event.get("name") == "aten::linear"]
    linked = [event for event in linear if event["args"]["Record function id"] in ids - {0}]
    assert len(linked) == 1  # of the six profiled steps, one has an execution trace
    assert any(node["name"] == "aten::linear" for node in nodes)
    # The recorder's modes compile the whole module here, so all of the call is the region.
    assert [node["name"] for node in nodes].count("gaptrace.region") == 1


def test_shapes_are_recorded_in_eager_mode(recorded):
    linear = next(e for e in recorded.trace("eager") if e.get("name") == "aten::linear")
    assert linear["args"]["Input Dims"][0] == [1, 1, 8]


def test_the_script_prints_what_it_prints_and_the_recorder_talks_on_stderr(recorded):
    assert re.fullmatch(r"last token \d+\n", recorded.stdout)
    assert "gaptrace: Wrote" in recorded.stderr
    assert "gaptrace analyze" in recorded.stderr
    lines = [line for line in recorded.stderr.splitlines() if not line.startswith("gaptrace:")]
    assert all("tok/s" in line for line in lines), lines


def test_the_folder_holds_only_what_is_documented(recorded):
    cell = recorded.root / "eager" / "1"
    assert sorted(item.name for item in cell.iterdir()) == [
        "execution_trace.json.gz",
        "run.json",
        "trace.json.gz",
    ]
    assert sorted(item.name for item in recorded.root.iterdir()) == ["collect.json", "eager"]
    index = json.loads((recorded.root / "collect.json").read_text())
    assert index["schema"] == "gaptrace.collect/1"
    assert index["cells"][0]["path"] == "eager/1"


def test_the_readme_documents_every_field(recorded):
    text = (COLLECTORS / "README.md").read_text()
    table = text.split("### `gaptrace.run/1`")[1].split("### `collect.json`")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert documented == set(recorded.run("eager"))


def test_nested_fields_are_documented_where_they_stand(recorded):
    text = (COLLECTORS / "README.md").read_text()
    run = recorded.run("eager")
    sections = ("unprofiled", "issue", "profiled", "bytes", "steadiness", "outputs", "hooks")
    for section in (*sections, "versions", "host", "step", "script", "files"):
        for name in run[section]:
            assert re.search(rf"\b{name}\b", text), f"{section}.{name} is not in the README"


def test_the_exit_code_of_the_script_is_passed_on(bench):
    done = bench.collect(*EAGER, bench.script(LOOP + "\nsys.exit(3)\n"))
    assert done.code == 3
    assert done.run("eager")["script"]["exit_code"] == 3
    assert done.run("eager")["status"] == "ok"


def test_a_script_that_fails_later_keeps_its_trace_and_its_traceback(bench):
    done = bench.collect(*EAGER, bench.script(LOOP + "\nraise ValueError('later')\n"))
    assert done.code == 1
    assert "ValueError: later" in done.stderr
    assert "gaptrace_collectors" not in done.stderr
    run = done.run("eager")
    assert run["status"] == "ok"
    assert run["script"]["error"] == "ValueError: later"
    assert done.marks("eager")


def test_a_script_that_fails_early_leaves_the_reason(bench):
    broken = LOOP.replace('print("last', 'raise OSError("disk")\nprint("last')
    done = bench.collect("--modes", "eager,compiled", *QUICK, bench.script(broken), "12")
    assert done.code == 1
    run = done.run("eager")
    assert run["status"] == "script_failed"
    assert run["failure"]["kind"] == "script_error"
    assert "OSError: disk" in run["failure"]["reason"]
    assert "script.py" in run["failure"]["evidence"][0]["where"]
    assert not (done.root / "compiled").exists()  # it would fail there too


def test_fewer_steps_give_fewer_timed_steps(bench):
    done = bench.collect("--modes", "eager", "--repeats", "1", bench.script(LOOP), "40")
    assert done.code == 0, done.stderr
    run = done.run("eager")
    assert run["asked"]["timed_steps"] == 100
    assert run["options"]["timed_steps"] == 10
    assert run["options"]["steps"] == 8
    assert len(run["unprofiled"]["before"]["host_ns"]) == 5
    assert "40 decode steps" in done.stderr


def test_too_few_steps_exit_with_125_and_the_number_needed(bench):
    done = bench.collect("--modes", "eager", "--repeats", "1", bench.script(LOOP), "20")
    assert done.code == 125
    assert re.search(r"20 decode steps; at least 29 are needed", done.stderr)
    assert not done.root.exists()


def test_no_decode_step_exits_with_125_and_says_what_was_seen(bench):
    text = MODEL + "\nwith torch.no_grad():\n    Model().eval()(torch.arange(4)[None])\n"
    done = bench.collect(*EAGER, bench.script(text))
    assert done.code == 125
    assert "no decode step was found" in done.stderr
    assert "Model: 1 x 4 tokens" in done.stderr
    assert "build()" in done.stderr


@pytest.mark.slow
def test_a_run_folder_is_replaced_only_by_force(bench):
    script = bench.script(LOOP)
    first = bench.collect(*EAGER, script)
    created = first.run("eager")["created"]
    again = bench.collect(*EAGER, script)
    assert again.code == 125
    assert "--force" in again.stderr
    assert again.run("eager")["created"] == created
    failed = bench.collect("--force", *EAGER, script, "3")
    assert failed.code == 125
    assert failed.run("eager")["created"] == created  # nothing replaced it
    assert (
        bench.collect("--force", "--modes", "eager", "--repeats", "2", *QUICK[2:], script).code == 0
    )
    assert sorted(path.name for path in (first.root / "eager").iterdir()) == ["1", "2"]


def test_stop_when_done_ends_the_script(bench):
    done = bench.collect("--stop-when-done", *EAGER, bench.script(LOOP), "100000")
    assert done.code == 0
    assert done.stdout == ""
    assert done.run("eager")["script"]["exit_code"] is None


@pytest.mark.slow
def test_several_prompts_leave_the_prefill_out_of_the_periods(bench):
    text = LOOP.replace(
        "    for _ in range(steps):\n",
        "    for n in range(steps):\n"
        "        if n % 7 == 6:\n"
        "            import time; time.sleep(0.3); model(torch.arange(4)[None])\n",
    )
    done = bench.collect(*EAGER, bench.script(text), "90")
    assert done.code == 0, done.stderr
    run = done.run("eager")
    samples = run["unprofiled"]["before"]["host_ns"] + run["unprofiled"]["after"]["host_ns"]
    assert len(samples) == 10
    assert max(samples) < 300_000_000
    assert max(run["issue"]["samples_ns"]) < 300_000_000
    assert run["step"]["prefill_calls_seen"] >= 8


def test_redaction(bench):
    script = bench.script(LOOP)
    done = bench.collect("--redact", *EAGER, script, "61")
    assert done.code == 0, done.stderr
    cell = done.root / "eager" / "1"
    run = (cell / "run.json").read_text()
    assert str(bench.folder) not in run
    parsed = json.loads(run)
    assert parsed["host"] is None
    assert parsed["env"] == {}
    assert parsed["script"]["argv"] is None
    assert parsed["script"]["path"] == "script.py"
    index = (done.root / "collect.json").read_text()
    assert str(bench.folder) not in index
    import gzip
    import socket

    with gzip.open(cell / "trace.json.gz", "rt") as file:
        trace = json.load(file)
    assert trace["host_name"] == "<host>" != socket.gethostname()
    assert len(done.marks("eager")) == 6


@pytest.mark.slow
def test_stacks_name_the_script_unless_redacted(bench):
    script = bench.script(LOOP)
    done = bench.collect("--stacks", *EAGER, script)
    frames = [e["name"] for e in done.trace("eager") if e.get("cat") == "python_function"]
    assert any("script.py" in name for name in frames)
    done = bench.collect("--stacks", "--redact", "--force", *EAGER, script)
    frames = [e["name"] for e in done.trace("eager") if e.get("cat") == "python_function"]
    assert frames
    assert not any(str(bench.folder) in name for name in frames)


def test_as_a_module_and_behind_a_separator(bench):
    bench.script(LOOP, "looping.py")
    assert bench.collect_fresh(*EAGER, "-m", "looping", "61", name="module").code == 0
    done = bench.collect_fresh(*EAGER, "--", sys.executable, "looping.py", name="separator")
    assert done.code == 0, done.stderr
    assert done.run("eager")["script"]["python"] == [sys.executable]


def test_nothing_of_gaptrace_enters_the_process(bench):
    text = LOOP + (
        "\nbad = [m for m in sys.modules if m.split('.')[0] in"
        " ('gaptrace', 'numpy', 'pandas', 'click', 'msgspec')]\n"
        "own = [p for p in sys.path if p.endswith('gaptrace_collectors')]\n"
        "print(__name__, sys.argv[1:], bad, own)\n"
    )
    # numpy comes with torch where it is installed: torch itself imports it.
    done = bench.collect_fresh(*EAGER, bench.script(text), "60", "--flag")
    name, *rest = done.stdout.splitlines()[-1].split(" ", 1)
    assert name == "__main__"
    assert rest[0].startswith("['60', '--flag']")
    assert "gaptrace'" not in rest[0]
    assert "pandas" not in rest[0]
    assert rest[0].endswith("[]")


def test_a_script_that_compiles_by_itself_is_recorded_as_it_is(bench):
    text = LOOP.replace("Model().eval()", "torch.compile(Model().eval(), backend='eager')")
    done = bench.collect(*QUICK, bench.script(text))
    assert done.code == 0, done.stderr
    assert "as-is" in done.stderr
    assert sorted(item.name for item in done.root.iterdir()) == ["as-is", "collect.json"]
    run = done.run("as-is")
    assert run["status"] == "ok"
    assert run["outputs"]["status"] == "not compared"
    assert run["compile"]["requested"] is False
    assert run["steadiness"]["observed"]["compiled regions"] >= 5


@pytest.mark.slow
def test_a_compiled_sampler_beside_the_step_keeps_all_modes(bench):
    text = LOOP.replace(
        "        token = model(token)[:, -1:].argmax(-1)\n",
        "        token = sample(model(token))\n",
    ).replace(
        "model = Model()",
        "def pick(x):\n    return x[:, -1:].argmax(-1)\n\n"
        "sample = torch.compile(pick, backend='eager')\nmodel = Model()",
    )
    done = bench.collect("--modes", "eager,compiled", *QUICK, bench.script(text))
    assert done.code == 0, done.stderr
    for mode in ("eager", "compiled"):
        assert done.run(mode)["status"] == "ok"
        beside = "compiled by the script beside the step, in all modes: torch.compile on pick"
        assert beside in done.run(mode)["notes"]


def test_captured_modes_say_why_they_cannot_work_without_a_gpu(bench):
    done = bench.collect("--modes", "graph", *QUICK, bench.script(LOOP))
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert done.code == 125
    run = done.run("graph")
    assert run["status"] == "mode_failed"
    assert run["failure"]["kind"] == "no_device"
    assert run["files"]["trace"] is None
    assert run["unprofiled"] is None


def running(bench, script):
    """A recording that will not end by itself, caught while the script decodes."""
    process = bench.start(*EAGER, script, name="script")
    assert process.stdout is not None
    assert process.stdout.readline() == "decoding\n"
    return process


ENDLESS = (
    LOOP.replace("    for _ in range(steps):\n", "    while True:\n")
    .replace("with torch.no_grad():", "import time\nstep = 0\nwith torch.no_grad():")
    .replace(
        "        token = model(token)",
        "        step += 1\n"
        "        step == 10 and print('decoding', flush=True)\n"
        "        time.sleep(0.05); token = model(token)",
    )
)


@pytest.mark.parametrize("whole_group", [True, False])
def test_ctrl_c_exits_with_130_and_leaves_no_half_folder(bench, whole_group):
    process = running(bench, bench.script(ENDLESS))
    if whole_group:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    left = [path for path in (bench.folder / "runs").rglob("*") if path.is_file()]
    assert left == []


def test_a_killed_recording_leaves_nothing_that_looks_whole(bench):
    process = running(bench, bench.script(ENDLESS))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    cells = [path.parent.name for path in (bench.folder / "runs").rglob("run.json")]
    assert all(name.startswith(".") for name in cells)
    assert not (bench.folder / "runs" / "script" / "eager" / "1").exists()


def test_a_child_that_dies_is_reported_with_its_signal(bench):
    text = LOOP.replace("print(", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)\nprint(")
    done = bench.collect(*EAGER, bench.script(text), "10")
    assert done.code == 128 + signal.SIGKILL
    assert not (done.root / "eager").exists()


def test_repeats_are_processes_of_their_own(bench):
    done = bench.collect("--modes", "eager", "--repeats", "2", *QUICK[2:], bench.script(LOOP))
    first, second = done.run("eager", 1), done.run("eager", 2)
    assert first["host"]["pid"] != second["host"]["pid"]
    assert second["outputs"] == {
        **second["outputs"],
        "status": "equal",
        "against": "eager/1",
    }


def test_git_state_of_the_scripts_folder(bench):
    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
            cwd=bench.folder,
            check=True,
            capture_output=True,
        )

    script = bench.script(LOOP)
    git("init", "-q")
    git("add", "script.py")
    git("commit", "-qm", "x")
    script.write_text(script.read_text() + "# changed\n")
    state = bench.collect(*EAGER, script).run("eager")["script"]["git"]
    assert re.fullmatch(r"[0-9a-f]{40}", state["commit"])
    assert state["dirty"] is True


def test_secrets_stay_out_of_the_environment(bench, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "0")
    monkeypatch.setenv("TORCH_HUB_TOKEN", "hush")
    env = bench.collect(*EAGER, bench.script(LOOP)).run("eager")["env"]
    assert env["CUDA_LAUNCH_BLOCKING"] == "0"
    assert "TORCH_HUB_TOKEN" not in env


def test_the_wheel_layout_runs_by_path_without_the_package_on_the_path(bench):
    script = bench.script(LOOP)
    env = {key: value for key, value in environment().items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "collectors" / "gaptrace_collectors"), *EAGER, str(script)],
        cwd=bench.folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert (bench.folder / "runs" / "script" / "eager" / "1" / "run.json").exists()
