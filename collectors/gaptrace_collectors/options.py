"""What was asked for: command line in, one frozen Request out.

`Options` and `Request` are the one definition of each option: its name, type, default and help.
The recorder's own command line and that of `gaptrace collect` are made from `FLAGS`.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

from gaptrace_collectors.modes import DEFAULT_MODES, MODES
from gaptrace_collectors.points import sizes
from gaptrace_collectors.targets import Target, UsageError, target_of

# What is recorded under the profiler: ops and all that was asked for, launch calls and step marks
# alone, or each of them once, to be joined.
FULL, LIGHT, BOTH = "full", "light", "both"

# A bucket must hold the profiled steps and what belongs to them.
FEWEST_BETWEEN_BUCKETS = 16


def _option(default: Any, text: str, kind: type = str, **more: Any) -> Any:
    """A field that is an option of the command line.

    `more`: `short`, a second name; `choices`, the words it takes; `said`, the default in words
    where the value does not say it.
    """
    return dataclasses.field(default=default, metadata={"help": text, "kind": kind, **more})


@dataclass(frozen=True)
class Options:
    """How to record. Counts are steps; `shapes=None` means: in eager mode."""

    modes: tuple[str, ...] = _option(
        DEFAULT_MODES, f"Also: {', '.join(mode for mode in MODES if mode not in DEFAULT_MODES)}."
    )
    warmup: int = _option(10, "Steps before anything is measured.", int)
    timed_steps: int = _option(100, "Unprofiled steps, half before, half after.", int)
    steps: int = _option(8, "Profiled steps.", int)
    issue_steps: int = _option(10, "Steps timed with the queue drained first.", int)
    repeats: int = _option(3, "Fresh processes per mode.", int)
    shapes: bool | None = _option(None, "Tensor shapes in the trace.", bool, said="eager only")
    trace: str = _option(
        FULL,
        "Record ops (full), launch calls alone (light), or each once, joined (both).",
        choices=(FULL, LIGHT, BOTH),
    )
    stacks: bool = _option(False, "Python stacks in the trace; slows the host a lot.", bool)
    seed: int = _option(0, "Seeds torch and random before the script starts.", int)
    max_seconds: float = _option(120.0, "Cut a phase short after this long.", float)
    stop_when_done: bool = _option(False, "End the script once all is recorded.", bool)
    redact: bool = _option(False, "Drop host, user, paths, arguments, environment, git.", bool)
    split_at: tuple[str, ...] = _option(
        (), "Operators that piecewise leaves outside.", said="attention"
    )
    buckets: tuple[int, ...] = _option((), "Pad the growing length to one of these, e.g. 128,512.")
    autotune_max_batch: int | None = _option(None, "Tune matrix products up to this batch.", int)
    modes_by_hand: bool = False  # asked for by name: recorded whatever the script does by itself

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
class Request:
    """One call of `collect`."""

    options: Options
    target: Target
    batch: tuple[int, ...] = _option(
        (), "Sweep batch sizes, e.g. 1,8,64; {batch} in the script's arguments."
    )
    cache_dir: str | None = _option(
        None, "Inductor's cache; `run` puts it into the run folder.", said="Inductor's"
    )
    out: str = _option("runs", "Where run folders go.", short="-o")
    name: str = _option("", "Name of the run folder.", said="the script's name")
    force: bool = _option(False, "Replace a run folder that is already there.", bool)
    entry: str = _option("auto", "How to run it.", choices=("auto", "script", "build"))


class Flag(NamedTuple):
    """One option as a command line has it; without a value where `kind` is bool.

    `help` ends with the default in brackets. `negated` is the word that switches it off, where
    neither on nor off is the default.
    """

    words: tuple[str, ...]
    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...] | None
    negated: str | None


def _flag(item: dataclasses.Field[Any]) -> Flag:
    meta, word = item.metadata, f"--{item.name.replace('_', '-')}"
    default: Any = item.default
    if isinstance(default, tuple):
        default = ",".join(default)
    said = meta.get("said", f"{default:g}" if isinstance(default, float) else default)
    shown = "" if said in (None, "") or said is False else f" [{said}]"
    return Flag(
        words=(meta["short"], word) if "short" in meta else (word,),
        name=item.name,
        kind=meta["kind"],
        default=default,
        help=meta["help"] + shown,
        choices=meta.get("choices"),
        negated=f"--no-{item.name}" if meta["kind"] is bool and default is None else None,
    )


FLAGS = tuple(
    _flag(item)
    for item in (*dataclasses.fields(Options), *dataclasses.fields(Request))
    if item.metadata
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gaptrace_collectors",
        usage="%(prog)s [options] script.py [args...] | -m module [args...] | -- python script.py"
        " | -- torchrun [its options] script.py",
        description="Record a script's decode step in several modes; see collectors/README.md.",
        allow_abbrev=False,
    )
    for flag in FLAGS:
        how: dict[str, Any] = {"dest": flag.name, "default": flag.default, "help": flag.help}
        if flag.negated:
            how["action"] = argparse.BooleanOptionalAction
        elif flag.kind is bool:
            how["action"] = "store_true"
        else:
            how |= {"type": flag.kind, "choices": flag.choices}
        parser.add_argument(*flag.words, **how)
    return parser


def split_command(argv: list[str]) -> tuple[list[str], list[str]]:
    """The recorder's options, and the command that follows them, a `--` in front included.

    The command begins at `-m`, at `--`, or at the first word that is neither an option nor the
    value of one.
    """
    valued = {word for flag in FLAGS if flag.kind is not bool for word in flag.words}
    at = 0
    while at < len(argv) and argv[at] not in ("-m", "--", "-") and argv[at].startswith("-"):
        at += 2 if argv[at] in valued else 1
    return argv[:at], argv[at:]


def parse(argv: list[str]) -> Request:
    """The request that a command line makes. Raises UsageError where it makes none."""
    words, command = split_command(argv)
    args = _parser().parse_args(words)
    modes = _words(args.modes)
    for mode in modes:
        if mode not in MODES:
            raise UsageError(f"unknown mode {mode!r}; there are {', '.join(MODES)}")
    if not modes:
        raise UsageError("--modes names no mode")
    for name in ("steps", "timed_steps", "repeats", "issue_steps"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1")
    if args.warmup < 0 or args.max_seconds <= 0:
        raise UsageError("--warmup and --max-seconds must not be negative")
    target = target_of(command[1:] if command[:1] == ["--"] else command)
    batch, buckets = _sweep(args)
    names = {field.name for field in dataclasses.fields(Options) if field.metadata} - set(_LISTS)
    options = Options(
        modes=modes,
        split_at=_words(args.split_at),
        buckets=buckets,
        modes_by_hand=any(word.split("=")[0] == "--modes" for word in words),
        **{name: getattr(args, name) for name in names},
    )
    name = args.name or target.default_name
    if os.path.basename(name) != name or name in ("", ".", ".."):
        raise UsageError(f"--name {name!r} must be a plain folder name")
    return Request(options, target, batch, args.cache_dir, args.out, name, args.force, args.entry)


def _words(text: str) -> tuple[str, ...]:
    """The different words of `eager,graph`, in order."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _sweep(args: argparse.Namespace) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Batch sizes and buckets. Raises UsageError."""
    try:
        batch = sizes(args.batch)
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
    return batch, buckets
