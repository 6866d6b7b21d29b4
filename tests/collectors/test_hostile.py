"""Scripts and machines that do not help: threads, forks, other batches, full disks, early ends."""

import json
import os
import resource
import signal
import sys

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from tests.collectors.conftest import LOOP, MODEL, QUICK  # noqa: E402

EAGER = ("--modes", "eager", *QUICK)
DECODE = "token = model(token)[:, -1:].argmax(-1)"


def left(bench):
    """The files of the run folder, hidden ones too."""
    root = bench.folder / "runs"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


# --- what is a step of this recording


def test_a_prompt_laid_out_length_first_does_not_set_the_batch(bench):
    text = LOOP.replace(
        "model(torch.arange(4)[None])[:, -1:]", "model(torch.arange(4)[:, None])[-1:]"
    )
    done = bench.collect(*EAGER, bench.script(text), "90")
    assert done.code == 0, done.stderr
    step = done.run("eager")["step"]
    assert (step["batch"], step["tokens"], step["prefill_calls_seen"]) == (1, 1, 1)


def test_steps_of_another_batch_are_not_recorded_as_if_they_were_alike(bench):
    loop = f"    for _ in range(steps):\n        {DECODE}\n"
    whole = "    token = token.repeat(4, 1)\n" + loop + "    token = token[:2]\n" + loop
    text = LOOP.replace(loop, whole).replace("token.item()", "len(token)")
    done = bench.collect(*EAGER, bench.script(text), "20")
    assert done.code == 125
    assert "at least 29 are needed; 20 decode calls had another batch size than 4" in done.stderr
    first_few = text.replace("[:2]\n", "[:2]\n    steps = 3\n").replace(
        DECODE, f"{DECODE}; _ % 25 or model(token[:2])", 1
    )
    done = bench.collect(*EAGER, "--force", bench.script(first_few), "90")
    assert done.code == 0, done.stderr
    run = done.run("eager")
    assert run["step"]["tokens"] == 4
    assert any("had another batch size than 4: not recorded" in note for note in run["notes"])


def test_another_thread_goes_on_undisturbed(bench):
    text = (
        MODEL
        + """
import threading

model = Model().eval()

def decode():
    with torch.no_grad():
        token = torch.zeros(1, 1, dtype=torch.long)
        for _ in range(400):
            token = model(token)[:, -1:].argmax(-1)
    print("whole")

threads = [threading.Thread(target=decode) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    )
    done = bench.collect_fresh(*EAGER, bench.script(text))
    assert done.code in (0, 125), done.stderr
    assert done.stdout.count("whole") % 2 == 0
    assert done.stdout.count("whole") >= 2
    assert "Traceback" not in done.stderr


def test_a_fork_is_not_recorded_in_its_parents_place(bench):
    text = LOOP.replace(
        "    for _ in range(steps):",
        "    child = os.fork()\n    for _ in range(steps):",
    ).replace("import sys", "import os\nimport sys") + (
        "if child == 0:\n    sys.exit(0)\nos.waitpid(child, 0)\nprint(os.getpid())\n"
    )
    done = bench.collect(*EAGER, bench.script(text), "90")
    assert done.code == 0, done.stderr
    run, parent = done.run("eager"), int(done.stdout.split()[-1])
    assert run["host"]["pid"] == parent
    ops = {event["pid"] for event in done.trace("eager") if event.get("cat") == "cpu_op"}
    assert ops == {parent}


def test_a_fork_within_a_step_goes_on_undisturbed(bench):
    text = (
        LOOP.replace("import sys", "import os\nimport sys\n\ncalls = []")
        .replace(
            "        return self.head",
            "        calls.append(os.fork() if len(calls) == 12 else 1)\n        return self.head",
        )
        .replace("import torch\n", "import os\nimport torch\n", 1)
        + "if 0 in calls:\n    sys.exit(0)\n"
        + "print('child', os.waitpid(calls[12], 0)[1])\n"
    )
    done = bench.collect(*EAGER, bench.script(text), "90")
    assert done.code == 0, done.stderr
    assert "child 0" in done.stdout
    assert done.run("eager")["status"] == "ok"
    assert "Traceback" not in done.stderr


def test_prompts_between_all_steps_are_named_as_the_reason(bench):
    text = LOOP.replace(DECODE, f"{DECODE}\n        model(torch.arange(4)[None])")
    done = bench.collect(*EAGER, bench.script(text), "90")
    assert done.code == 125
    said = " ".join(done.stderr.split())
    assert "other calls come between them, most of them of 4 tokens (prompts, prompt look" in said


# --- ends


def test_a_full_disk_is_not_the_scripts_error(bench):
    """As far as files are concerned, a limit on their size is the same."""
    limit = (20_000, 20_000)
    done = bench.collect_fresh(
        *EAGER,
        bench.script(LOOP),
        "90",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert done.code == 125, done.stderr
    assert "error: the profiler left no whole trace" in done.stderr
    assert "hint: is there space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert left(bench) == []


def test_an_interpreter_without_torch_is_named(bench):
    done = bench.collect(*EAGER, "--", sys.executable, "-S", bench.script(LOOP))
    assert done.code == 125
    assert "has no torch" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_process_that_vanishes_is_told(bench):
    text = LOOP.replace(DECODE, f"{DECODE}\n        _ == 20 and os._exit(0)")
    done = bench.collect(*EAGER, bench.script(text.replace("import sys", "import os, sys")), "90")
    assert done.code == 125
    assert "ended with 0 before its recording was whole (os._exit?)" in done.stderr


def test_a_script_that_fails_at_once_replaces_nothing(bench):
    script = bench.script(LOOP)
    assert bench.collect(*EAGER, script, "90").code == 0
    before = left(bench)
    done = bench.collect(*EAGER, "--force", script, "typo")
    assert done.code == 1
    assert "is what it was before" in done.stderr
    assert left(bench) == before
    assert done.run("eager")["status"] == "ok"


def test_a_linked_run_folder_can_be_replaced_again(bench):
    (bench.folder / "runs").mkdir()
    elsewhere = bench.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("mine")
    (bench.folder / "runs" / "run").symlink_to(elsewhere)
    for _ in range(2):
        done = bench.collect(*EAGER, "--force", bench.script(LOOP), "90")
        assert done.code == 0, done.stderr
    assert (elsewhere / "kept").read_text() == "mine"
    assert not any(name.startswith(".") for name in os.listdir(bench.folder / "runs"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_recorded_whole_survives_an_interrupt(bench, number):
    text = LOOP + "print('over', flush=True)\nimport time\ntime.sleep(120)\n"
    with bench.start(*EAGER, "--redact", bench.script(text), "90") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == "over":
                break
        if number == signal.SIGINT:  # a terminal tells the whole group
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "what was finished has been kept" in error
    root = bench.folder / "runs" / "run"
    run = json.loads((root / "eager" / "1" / "run.json").read_text())
    assert run["status"] == "ok"
    assert (root / "eager" / "1" / "trace.json.gz").exists()
    index = json.loads((root / "collect.json").read_text())
    assert (index["complete"], index["exit_code"]) == (False, 128 + number)


def test_an_exit_code_of_130_is_the_scripts_own(bench):
    done = bench.collect(*EAGER, bench.script(LOOP + "sys.exit(130)\n"), "90")
    assert done.code == 130
    assert done.run("eager")["status"] == "ok"
    assert "interrupted" not in done.stderr


def test_redacting_knows_linked_folders_and_arguments(bench):
    real = bench.folder / "secretplace"
    real.mkdir()
    (bench.folder / "link").symlink_to(real)
    text = LOOP + "raise SystemError(__import__('os').path.realpath(sys.argv[0]) + sys.argv[2])\n"
    (real / "script.py").write_text(text)
    words = (*EAGER, "--redact", bench.folder / "link" / "script.py", "90", "topsecret")
    done = bench.collect(*words)
    assert done.code == 1
    told = json.dumps(done.run("eager"))
    assert "secretplace" not in told
    assert "topsecret" not in told
    assert "SystemError" in done.run("eager")["script"]["error"]
