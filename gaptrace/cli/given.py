"""`--unprofiled-step` and `--tokens-per-second`: what somebody measured, given for each path."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from gaptrace.cli.options import options_from, together
from gaptrace.errors import OptionError
from gaptrace.measure.given import EXAMPLE, RATE, STEP, rate_of, time_ns
from gaptrace.measure.options import NOT_GIVEN, GivenStep, Options
from gaptrace.units import counted

NONE = "-"

given_options = together(
    click.option(
        STEP,
        "unprofiled_step",
        multiple=True,
        metavar="[MODE=]TIME",
        help="A step measured without the profiler (40.65ms; s, ms, us, ns). Repeat it for several "
        "PATHs, in their order, - for none; for a run of several modes MODE=TIME,...",
    ),
    click.option(
        RATE,
        "tokens_per_second",
        multiple=True,
        metavar="[MODE=]N",
        help="The same as a rate.",
    ),
)


def given_of_paths(paths: Sequence[str], values: Mapping[str, Any]) -> tuple[Options, ...]:
    """The options for each path: those that all share, and the step that was given for it.

    Raises:
        OptionError: not one value for each path, no time, no rate, or a mode given for a trace.
    """
    shared = options_from(dict(values))
    steps = _each_path(STEP, paths, values["unprofiled_step"])
    rates = _each_path(RATE, paths, values["tokens_per_second"])
    return tuple(
        _with(shared, path, step, rate)
        for path, step, rate in zip(paths, steps, rates, strict=True)
    )


def one_given(path: str, values: Mapping[str, Any]) -> Options:
    """The options of a command that takes one path."""
    return given_of_paths((path,), values)[0]


def _each_path(option: str, paths: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """What was given for each path, empty for none."""
    if not given:
        return ("",) * len(paths)
    if len(paths) == 1 and all("=" in text for text in given):
        return (",".join(given),)
    if len(given) != len(paths):
        hint = f"of a run folder with several modes write {option} MODE={EXAMPLE[option]}"
        if len(paths) > 1:
            each = [EXAMPLE[option], *[NONE] * (len(paths) - 1)]
            words = " ".join(f"{option} {text}" for text in each)
            hint = f"give one for each path in their order, {NONE} for none: {words}"
        raise OptionError(
            f"{counted(len(paths), 'path')} and {counted(len(given), 'value')} of {option}", hint
        )
    return tuple("" if text.strip() == NONE else text for text in given)


def _with(shared: Options, path: str, step: str, rate: str) -> Options:
    steps, rates = dict(_modes(STEP, step)), dict(_modes(RATE, rate))
    every: dict[str, GivenStep] = {
        mode: GivenStep(
            None if mode not in steps else time_ns(STEP, steps[mode]),
            None if mode not in rates else rate_of(rates[mode]),
        )
        for mode in {**steps, **rates}
    }
    alone = every.pop("", NOT_GIVEN)
    if every and alone:
        raise OptionError(
            f"a step for {path} is given both for single modes and for all",
            f"write {STEP} MODE=TIME for each mode",
        )
    if every and not os.path.isdir(path):
        mode, found = next(iter(every.items()))
        option = STEP if found.step_ns is not None else RATE
        text = steps.get(mode) or rates[mode]
        raise OptionError(
            f"{path} is no run folder, so it has no mode {mode!r}", f"write {option} {text}"
        )
    return replace(shared, given=alone, given_of_modes=tuple(every.items()))


def _modes(option: str, text: str) -> Iterator[tuple[str, str]]:
    """Mode and value of each part; an empty mode for a value that names none."""
    parts = [part.strip() for part in text.split(",")] if text else []
    if len(parts) > 1 and not all("=" in part for part in parts):
        raise OptionError(
            f"{option} {text!r} holds {len(parts)} values",
            f"for several paths repeat it: {option} {parts[0]} {option} {parts[1]}; for the modes "
            f"of a run folder write {option} MODE={parts[0]},MODE={parts[1]}",
        )
    seen: set[str] = set()
    for part in parts:
        mode, _, value = part.rpartition("=")
        if mode.strip() in seen:
            raise OptionError(f"{option} names {mode.strip()} twice")
        seen.add(mode.strip())
        yield mode.strip(), value.strip()
