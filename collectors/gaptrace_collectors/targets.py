"""What is to be run: a script or a module, the interpreter before it, and a launcher before that.

A launcher (`torchrun`, `accelerate launch`, `mpirun`, `uv run`, or any command that starts a
Python script) stays in front: only the script behind it is replaced by the recorder, so that every
process it starts is recorded.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from dataclasses import dataclass

_PYTHON = re.compile(r"^(python|pypy)[\d.]*(\.exe)?$")
_INLINE = re.compile(r"^# /// script\s*$", re.MULTILINE)
_REQUIRES = re.compile(r"^# requires-python\s*=\s*[\"'](.+?)[\"']", re.MULTILINE)


class UsageError(Exception):
    """The command line makes no sense; the message says why."""


@dataclass(frozen=True)
class Target:
    """What to run: a script file or a module, with its own arguments and interpreter.

    `launcher`: words in front that start it, in several processes perhaps. `python` is empty where
    the launcher brings the interpreter.
    """

    kind: str  # "script" or "module"
    value: str
    args: tuple[str, ...]
    python: tuple[str, ...]
    launcher: tuple[str, ...] = ()

    @property
    def default_name(self) -> str:
        """Name of the run folder when none was given."""
        if self.kind == "script":
            return os.path.splitext(os.path.basename(self.value))[0]
        return self.value

    @property
    def spreads(self) -> bool:
        """Whether the launcher starts several processes, each with a rank."""
        words = {os.path.basename(word) for word in self.launcher}
        return bool(words & _SPREADING) or any(
            launcher.module in self.launcher for launcher in _LAUNCHERS
        )

    def command(self, *instead: str) -> list[str]:
        """The words that run `instead` in place of the script; without any, the script itself."""
        own = ["-m"] if self.kind == "module" else []
        words = list(instead) or [*own, self.value, *self.args]
        return [*self.launcher, *self.python, *words]


@dataclass(frozen=True)
class _Launcher:
    """A launcher of Python scripts, as it is called, and its options that take no value."""

    words: tuple[str, ...]
    module: str
    flags: frozenset[str]


_TORCHRUN_FLAGS = frozenset(
    [
        "--standalone",
        "--no-python",
        "--no_python",
        "--run-path",
        "--run_path",
        "--use-env",
        "--use_env",
        "--virtual-local-rank",
        "--virtual_local_rank",
        "-h",
        "--help",
    ]
)
_ACCELERATE_FLAGS = frozenset(
    [
        "--quiet",
        "-q",
        "--cpu",
        "--multi_gpu",
        "--tpu",
        "--enable_cpu_affinity",
        "--dynamo_use_fullgraph",
        "--dynamo_use_dynamic",
        "--dynamo_use_regional_compilation",
        "--use_deepspeed",
        "--use_fsdp",
        "--use_parallelism_config",
        "--use_megatron_lm",
        "--same_network",
        "--no_python",
        "--tpu_cluster",
        "--no_tpu_cluster",
        "--tpu_use_sudo",
        "--downcast_bf16",
        "--fp8_use_autocast_during_eval",
        "--debug",
        "-h",
        "--help",
    ]
)
_DEEPSPEED_FLAGS = frozenset(
    [
        "--no_python",
        "--no_local_rank",
        "--no_ssh",
        "--no_ssh_check",
        "--save_pid",
        "--force_multi",
        "--elastic_training",
        "--bind_cores_to_rank",
        "-h",
        "--help",
    ]
)
_LAUNCHERS = (
    _Launcher(("torchrun",), "torch.distributed.run", _TORCHRUN_FLAGS),
    _Launcher((), "torch.distributed.launch", _TORCHRUN_FLAGS),
    _Launcher(("accelerate", "launch"), "accelerate.commands.launch", _ACCELERATE_FLAGS),
    _Launcher(("accelerate-launch",), "accelerate.commands.launch", _ACCELERATE_FLAGS),
    _Launcher(("deepspeed",), "deepspeed.launcher.runner", _DEEPSPEED_FLAGS),
)
_SPREADING = frozenset(
    [
        "torchrun",
        "accelerate",
        "accelerate-launch",
        "deepspeed",
        "mpirun",
        "mpiexec",
        "mpiexec.hydra",
        "orterun",
        "prun",
        "srun",
        "aprun",
        "jsrun",
        "horovodrun",
    ]
)
_NO_PYTHON = ("--no-python", "--no_python")
_MODULE = ("-m", "--module")
# Options of commands such as `uv run` and `conda run` whose value could pass for an interpreter.
_NAMES_PYTHON = ("-p", "--python", "--name")


def target_of(command: list[str]) -> Target:
    """What a command line runs. Raises UsageError where no Python script is found in it."""
    if not command:
        raise UsageError("what should be recorded? give a script, or -m MODULE")
    found = _launched(command)
    if found is not None:
        return found
    head = command[0]
    if _is_python(head):
        return _interpreted(command)
    if head == "-m" or (os.path.isfile(head) and _holds_python(head)):
        return _direct(command, (sys.executable,))
    if shutil.which(head) is not None:
        return _wrapped(command)
    raise UsageError(f"there is no file {head}")


def _direct(words: list[str], python: tuple[str, ...], launcher: tuple[str, ...] = ()) -> Target:
    """A script or `-m MODULE`, and its arguments."""
    if words[:1] == ["-m"]:
        if len(words) < 2:
            raise UsageError("-m needs a module name")
        return Target("module", words[1], tuple(words[2:]), python, launcher)
    if not words:
        raise UsageError("the interpreter is there, but no script behind it")
    if not os.path.isfile(words[0]):
        raise UsageError(f"there is no file {words[0]}")
    return Target("script", words[0], tuple(words[1:]), python, launcher)


def _interpreted(command: list[str], launcher: tuple[str, ...] = ()) -> Target:
    """`python [options] script` or `python [options] -m module`, behind a launcher perhaps."""
    head = command[0]
    # A launcher such as `uv run` decides itself which interpreter that is.
    path = head if launcher else shutil.which(head)
    if path is None:
        raise UsageError(f"no interpreter {head!r} on the PATH")
    at = _behind_python(command)
    return _direct(command[at:], (path, *command[1:at]), launcher)


def _behind_python(command: list[str]) -> int:
    """Where an interpreter's own options end."""
    at = 1
    while at < len(command) and command[at].startswith("-") and command[at] != "-m":
        if command[at] == "-c":
            raise UsageError("`python -c` cannot be recorded; put the code into a file")
        at += 2 if command[at] in ("-X", "-W") else 1
    return at


def _is_python(word: str) -> bool:
    return _PYTHON.match(os.path.basename(word)) is not None


def defines_build(path: str | None) -> bool:
    """Whether a file has a top-level `def build()` that can be called without arguments."""
    if path is None:
        return False
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return False
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "build":
            args = node.args
            required = len(args.posonlyargs) + len(args.args) - len(args.defaults)
            return required == 0 and all(item is not None for item in args.kw_defaults)
    return False


# --- launchers of Python scripts --------------------------------------------------------------


def _launched(command: list[str]) -> Target | None:
    """The target of a launcher that takes a script itself, None where there is no such launcher."""
    head = os.path.basename(command[0])
    for launcher in _LAUNCHERS:
        if launcher.words and (head, *command[1 : len(launcher.words)]) == launcher.words:
            return _behind_launcher(command, len(launcher.words), launcher)
    if not _is_python(command[0]):
        return None
    at = _behind_python(command)
    for launcher in _LAUNCHERS:
        if command[at : at + 2] == ["-m", launcher.module]:
            return _behind_launcher(command, at + 2, launcher)
    return None


def _behind_launcher(command: list[str], at: int, launcher: _Launcher) -> Target:
    """The script behind the options that begin at `at`.

    An option takes a value unless it is known to take none, holds a `=`, or is followed by another
    option or by a script.
    """
    python, options, module = True, list(command[:at]), False
    while at < len(command) and command[at].startswith("-"):
        word = command[at]
        following = command[at + 1 : at + 2]
        module = module or word in _MODULE
        python = python and word not in _NO_PYTHON
        if word not in _MODULE:
            options.append(word)
        at += 1
        alone = word in launcher.flags or word in _MODULE or "=" in word or not following
        if not alone and not following[0].startswith("-") and not _is_script(following[0]):
            options.append(following[0])
            at += 1
    rest, words = command[at:], tuple(options)
    if not rest:
        raise UsageError(f"{' '.join(command[:1])} is there, but no script behind it")
    if not python:
        return _interpreted(rest, words) if _is_python(rest[0]) else _by_shebang(rest, words)
    return _direct(["-m", *rest] if module else rest, (), words)


# --- any other command that starts a script ---------------------------------------------------


def _wrapped(command: list[str]) -> Target:
    """The target of a command that starts a Python script further along, or is one itself."""
    uv = os.path.basename(command[0]) == "uv"
    at = 1
    while at < len(command):
        word, rest, words = command[at], command[at:], tuple(command[:at])
        if command[at - 1] in _NAMES_PYTHON:
            at += 1
            continue
        inner = None if word.startswith("-") else _launched(rest)
        if inner is not None:
            return Target(inner.kind, inner.value, inner.args, inner.python, words + inner.launcher)
        if uv and word in _MODULE:
            return _direct(["-m", *rest[1:]], ("python",), words)
        if _is_python(word):
            return _interpreted(rest, words)
        if _is_script(word):
            return _uv_script(rest, words) if uv else _by_shebang(rest, words)
        at += 1
    own = shutil.which(command[0])
    if own is not None and _shebang(own):
        return Target("script", own, tuple(command[1:]), _shebang(own))
    raise UsageError(
        f"no Python script in `{' '.join(command)}`; what starts it may say"
        " `python -m gaptrace_collectors` in place of `python`"
    )


def _is_script(word: str) -> bool:
    return word.endswith((".py", ".pyw")) and os.path.isfile(word)


def _by_shebang(rest: list[str], launcher: tuple[str, ...]) -> Target:
    """A script that a launcher would execute: with the interpreter in its first line."""
    return _direct(rest, _shebang(rest[0]) or (sys.executable,), launcher)


def _shebang(path: str) -> tuple[str, ...]:
    """The words of a Python script's first line, empty where it names no Python."""
    try:
        with open(path, "rb") as file:
            first = file.readline(1000).decode("utf-8", "replace")
    except OSError:
        return ()
    words = tuple(first[2:].split()) if first.startswith("#!") else ()
    return words if any(_is_python(word) for word in words) else ()


def _holds_python(path: str) -> bool:
    """Whether a file can be Python: no program of the machine, no script of another language."""
    try:
        with open(path, "rb") as file:
            first = file.readline(1000)
    except OSError:
        return True
    if path.endswith((".py", ".pyw")):
        return True
    return not first.startswith((b"#!", b"\x7fELF", b"\xcf\xfa", b"MZ")) or bool(_shebang(path))


def _uv_script(rest: list[str], words: tuple[str, ...]) -> Target:
    """`uv run script.py`: what the script says of its own environment is asked for in words."""
    with open(rest[0], encoding="utf-8", errors="replace") as file:
        text = file.read()
    options = tuple(word for word in words if word not in ("-s", "--script"))
    if _INLINE.search(text):
        options += ("--no-project", "--with-requirements", rest[0])
        python = _REQUIRES.search(text)
        if python and not set(options) & {"-p", "--python"}:
            options += ("--python", python[1])
    return _direct(rest, ("python",), options)
