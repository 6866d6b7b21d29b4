"""Which words of a command line are a launcher's, and what it starts."""

import os
import sys

import pytest

from gaptrace_collectors.options import parse
from gaptrace_collectors.targets import UsageError, target_of

INLINE = '# /// script\n# requires-python = ">=3.11"\n# dependencies = ["torch"]\n# ///\n'


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """A folder with a script, and launchers that are on the PATH."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("")
    (tmp_path / "inline.py").write_text(INLINE)
    (tmp_path / "run.py").write_text("#!/usr/bin/env python3\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("torchrun", "accelerate", "mpirun", "uv", "deepspeed", "numactl", "srun"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    (programs / "own-command").write_text(f"#!{sys.executable}\nprint()\n")
    (programs / "own-command").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


def recorded(text):
    """The words that record what a command line runs, the recorder written as REC."""
    return " ".join(target_of(text.split()).command("REC"))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("torchrun script.py a", "torchrun REC"),
        ("torchrun --nproc-per-node 2 script.py", "torchrun --nproc-per-node 2 REC"),
        ("torchrun --nproc_per_node=2 --standalone script.py", None),
        ("torchrun --standalone --nnodes 1 -m pkg.mod", "torchrun --standalone --nnodes 1 REC"),
        ("torchrun --no-python --nnodes 1 python3 -u script.py", None),
        ("accelerate launch --multi_gpu --num_processes 2 script.py --cpu", None),
        ("accelerate launch --config_file c.yaml script.py", None),
        ("deepspeed --num_gpus 2 --module pkg", "deepspeed --num_gpus 2 REC"),
        ("mpirun -n 2 -x A=1 python script.py --n 3", "mpirun -n 2 -x A=1 python REC"),
        ("mpirun -n 2 python -m pkg.mod", "mpirun -n 2 python REC"),
        ("mpirun -n 2 run.py", "mpirun -n 2 /usr/bin/env python3 REC"),
        ("numactl -N 0 torchrun --nnodes 1 script.py", "numactl -N 0 torchrun --nnodes 1 REC"),
        ("srun -p gpu -n 2 python -O script.py", "srun -p gpu -n 2 python -O REC"),
        ("uv run script.py a", "uv run python REC"),
        ("uv run --with torch --python python3.11 script.py", None),
        ("uv run -m pkg.mod a", "uv run python REC"),
        ("uv run torchrun --nnodes 1 script.py", "uv run torchrun --nnodes 1 REC"),
    ],
)
def test_the_recorder_takes_the_scripts_place(command, words):
    if words is None:
        head = command.split("script.py")[0]
        words = head + ("python REC" if head.startswith("uv") else "REC")
    assert recorded(command) == words


def test_torchs_launcher_as_a_module_keeps_the_interpreter_it_was_given():
    words = recorded("python -m torch.distributed.run --nproc-per-node 2 script.py")
    assert words == "python -m torch.distributed.run --nproc-per-node 2 REC"


def test_what_stands_behind_the_script_is_the_scripts():
    target = target_of(["torchrun", "--nnodes", "1", "script.py", "--nnodes", "9", "-m", "x"])
    assert (target.kind, target.value) == ("script", "script.py")
    assert target.args == ("--nnodes", "9", "-m", "x")
    module = target_of(["accelerate", "launch", "--cpu", "-m", "pkg.mod", "-m", "x"])
    assert (module.kind, module.value, module.args) == ("module", "pkg.mod", ("-m", "x"))


def test_the_script_by_itself_is_run_by_the_same_words():
    command = ["mpirun", "-n", "2", "python", "-O", "script.py", "--n", "3"]
    assert target_of(command).command() == command
    target = target_of(["torchrun", "--nnodes", "1", "-m", "pkg", "a"])
    assert target.command() == ["torchrun", "--nnodes", "1", "-m", "pkg", "a"]


def test_a_script_that_names_its_environment_gets_it_under_uv():
    words = target_of(["uv", "run", "inline.py"]).command("REC")
    assert words[:3] == ["uv", "run", "--no-project"]
    assert words[3:5] == ["--with-requirements", "inline.py"]
    assert words[5:] == ["--python", ">=3.11", "python", "REC"]


def test_a_command_that_is_a_python_script_is_recorded_as_one():
    target = target_of(["own-command", "generate", "5"])
    assert os.path.basename(target.value) == "own-command"
    assert target.python == (sys.executable,)
    assert target.args == ("generate", "5")


@pytest.mark.parametrize(
    ("command", "spreads"),
    [
        ("torchrun script.py", True),
        ("python -m torch.distributed.run script.py", True),
        ("uv run mpirun -n 2 python script.py", True),
        ("uv run script.py", False),
        ("numactl -N 0 python script.py", False),
        ("script.py", False),
    ],
)
def test_launchers_of_several_processes_are_told_from_others(command, spreads):
    assert target_of(command.split()).spreads is spreads


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("torchrun --nnodes 1", "no script behind it"),
        ("torchrun --nnodes 1 missing.py", "there is no file missing.py"),
        ("mpirun -n 2 hostname", "no Python script in `mpirun -n 2 hostname`"),
        ("mpirun -n 2 python -c 1", "cannot be recorded"),
        ("no-such-launcher script.py", "there is no file no-such-launcher"),
    ],
)
def test_nonsense_is_refused(command, text):
    with pytest.raises(UsageError, match=text):
        target_of(command.split())


def test_a_launcher_needs_no_separator_in_front():
    for argv in (["--repeats", "1", "torchrun", "script.py"], ["--", "torchrun", "script.py"]):
        assert parse(argv).target.launcher == ("torchrun",)
