"""What was asked for: command line in, one frozen Request out."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import re
import shutil
import sys
from dataclasses import dataclass
from typing import Any

from gaptrace_collectors.points import sizes

DEFAULT_MODES = ("eager", "compiled", "graph", "compiled-graph")
# torch.compile's own modes, which capture through CUDA-graph trees.
TREES = ("reduce-overhead", "max-autotune")
ALL_MODES = (*DEFAULT_MODES, "piecewise", *TREES, "as-is")
COMPILING = ("compiled", "compiled-graph", "piecewise", *TREES)
# Modes in which the recorder captures the whole step itself.
CAPTURING = ("graph", "compiled-graph")
# A bucket must hold the profiled steps and what belongs to them.
FEWEST_BETWEEN_BUCKETS = 16

_PYTHON = re.compile(r"^(python|pypy)[\d.]*(\.exe)?$")


class UsageError(Exception):
    """The command line makes no sense; the message says why."""


@dataclass(frozen=True)
class Options:
    """How to record. Counts are steps; `shapes=None` means: in eager mode."""

    modes: tuple[str, ...] = DEFAULT_MODES
    warmup: int = 10
    timed_steps: int = 100
    steps: int = 8
    issue_steps: int = 10
    repeats: int = 3
    shapes: bool | None = None
    stacks: bool = False
    seed: int = 0
    max_seconds: float = 120.0
    stop_when_done: bool = False
    redact: bool = False
    split_at: tuple[str, ...] = ()
    buckets: tuple[int, ...] = ()
    autotune_max_batch: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The options as plain JSON values."""
        lists = {name: list(getattr(self, name)) for name in _LISTS}
        return dataclasses.asdict(self) | lists

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Options:
        """Options from what `to_json` gave."""
        return cls(**(values | {name: tuple(values[name]) for name in _LISTS}))


_LISTS = ("modes", "split_at", "buckets")


@dataclass(frozen=True)
class Target:
    """What to run: a script file or a module, with its own arguments and interpreter."""

    kind: str  # "script" or "module"
    value: str
    args: tuple[str, ...]
    python: tuple[str, ...]

    @property
    def default_name(self) -> str:
        """Name of the run folder when none was given."""
        if self.kind == "script":
            return os.path.splitext(os.path.basename(self.value))[0]
        return self.value


@dataclass(frozen=True)
class Request:
    """One call of `collect`."""

    options: Options
    target: Target
    out: str
    name: str
    force: bool
    entry: str
    batches: tuple[int, ...] = ()
    cache_dir: str | None = None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gaptrace_collectors",
        usage="%(prog)s [options] script.py [args...] | -m module [args...] | -- python script.py",
        description="Record a script's decode step in several modes; see collectors/README.md.",
        allow_abbrev=False,
    )
    default = Options()
    add = parser.add_argument
    add("--modes", default=",".join(default.modes))
    add("--warmup", type=int, default=default.warmup)
    add("--timed-steps", type=int, default=default.timed_steps)
    add("--steps", type=int, default=default.steps)
    add("--issue-steps", type=int, default=default.issue_steps)
    add("--repeats", type=int, default=default.repeats)
    add("--shapes", action=argparse.BooleanOptionalAction, default=None)
    add("--stacks", action="store_true")
    add("--seed", type=int, default=default.seed)
    add("--max-seconds", type=float, default=default.max_seconds)
    add("--stop-when-done", action="store_true")
    add("--redact", action="store_true")
    add("--batch")
    add("--buckets")
    add("--split-at", default="")
    add("--autotune-max-batch", type=int)
    add("--cache-dir")
    add("-o", "--out", default="runs")
    add("--name")
    add("--force", action="store_true")
    add("--entry", choices=("auto", "script", "build"), default="auto")
    return parser


def split_command(argv: list[str], valued: frozenset[str]) -> tuple[list[str], list[str]]:
    """The recorder's own options, and the command that follows them.

    The command begins at `-m`, behind `--`, or at the first word that is neither an option nor the
    value of one of the `valued` options.
    """
    at = 0
    while at < len(argv):
        word = argv[at]
        if word == "--":
            return argv[:at], argv[at + 1 :]
        if word == "-m" or not word.startswith("-") or word == "-":
            return argv[:at], argv[at:]
        at += 2 if word in valued else 1
    return argv, []


def _interpreter(command: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """Interpreter words at the head of `command`, if any, and the rest."""
    head = command[0]
    if not _PYTHON.match(os.path.basename(head)):
        return (sys.executable,), command
    found = shutil.which(head)
    if found is None:
        raise UsageError(f"no interpreter {head!r} on the PATH")
    words, at = [found], 1
    while at < len(command) and command[at].startswith("-") and command[at] != "-m":
        if command[at] == "-c":
            raise UsageError("`python -c` cannot be recorded; put the code into a file")
        step = 2 if command[at] in ("-X", "-W") else 1
        words += command[at : at + step]
        at += step
    return tuple(words), command[at:]


def _target(command: list[str]) -> Target:
    if not command:
        raise UsageError("what should be recorded? give a script, or -m MODULE")
    python, rest = _interpreter(command)
    if rest[:1] == ["-m"]:
        if len(rest) < 2:
            raise UsageError("-m needs a module name")
        return Target("module", rest[1], tuple(rest[2:]), python)
    if not rest:
        raise UsageError("the interpreter is there, but no script behind it")
    return Target("script", rest[0], tuple(rest[1:]), python)


def parse(argv: list[str]) -> Request:
    """The request that a command line makes. Raises UsageError where it makes none."""
    parser = _parser()
    valued = frozenset(
        flag
        for action in parser._actions
        if action.nargs is None and action.option_strings
        for flag in action.option_strings
    )
    own, command = split_command(argv, valued)
    args = parser.parse_args(own)
    modes = tuple(dict.fromkeys(word.strip() for word in args.modes.split(",") if word.strip()))
    for mode in modes:
        if mode not in ALL_MODES:
            raise UsageError(f"unknown mode {mode!r}; there are {', '.join(ALL_MODES)}")
    if not modes:
        raise UsageError("--modes names no mode")
    for name in ("steps", "timed_steps", "repeats", "issue_steps"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1")
    if args.warmup < 0 or args.max_seconds <= 0:
        raise UsageError("--warmup and --max-seconds must not be negative")
    target = _target(command)
    if target.kind == "script" and not os.path.isfile(target.value):
        raise UsageError(f"there is no file {target.value}")
    batches, buckets = _sweep(args)
    names = {field.name for field in dataclasses.fields(Options)} - set(_LISTS)
    options = Options(
        modes=modes,
        split_at=tuple(word.strip() for word in args.split_at.split(",") if word.strip()),
        buckets=buckets,
        **{name: getattr(args, name) for name in names},
    )
    name = args.name or target.default_name
    if os.path.basename(name) != name or name in ("", ".", ".."):
        raise UsageError(f"--name {name!r} must be a plain folder name")
    return Request(options, target, args.out, name, args.force, args.entry, batches, args.cache_dir)


def _sweep(args: argparse.Namespace) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Batch sizes and buckets. Raises UsageError."""
    try:
        batches = sizes(args.batch)
        buckets = sizes(args.buckets)
    except ValueError as error:
        raise UsageError(f"--batch or --buckets: {error}") from error
    for smaller, larger in itertools.pairwise((0, *buckets)):
        if larger - smaller < FEWEST_BETWEEN_BUCKETS:
            raise UsageError(
                f"--buckets: {larger} is too close to {smaller};"
                f" {FEWEST_BETWEEN_BUCKETS} lengths must lie between two buckets"
            )
    if args.autotune_max_batch is not None and args.autotune_max_batch < 1:
        raise UsageError("--autotune-max-batch must be at least 1")
    return batches, buckets
