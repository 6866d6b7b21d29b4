"""Gates on the command line: `--fail-on`, limits from pyproject.toml, and what GitHub is told."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from gaptrace.cli.options import together
from gaptrace.cli.output import report_of
from gaptrace.errors import GaptraceError, OptionError

if TYPE_CHECKING:
    from gaptrace.analysis import Analysis
    from gaptrace.cli.output import Analyzed
    from gaptrace.compare.gates import Gate
    from gaptrace.render.files import Report
    from gaptrace.results.comparison import GateResult

# GitHub drops a step summary of more than 1 MiB as a whole.
SUMMARY_BYTES = 900_000


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from gaptrace.compare.metrics import BY_ID, GATES

    del ctx, param
    return [
        CompletionItem(f"{name}:", help=BY_ID[name].meaning)
        for name in GATES
        if f"{name}:".startswith(incomplete)
    ]


gate_options = together(
    click.option(
        "--fail-on",
        "fail_on",
        multiple=True,
        metavar="METRIC:LIMIT",
        shell_complete=_complete,
        help="Exit with 1 beyond this limit; repeatable. See gaptrace metrics.",
    ),
    click.option(
        "--github",
        is_flag=True,
        help="Append to the GitHub step summary and annotate gates and findings.",
    ),
)


def settings(command: str, start: Path | None = None) -> Mapping[str, Any]:
    """What the nearest pyproject.toml sets for a command.

    `[tool.gaptrace]` is for all commands, `[tool.gaptrace.COMMAND]` for one and goes first. Empty
    where there is no such file or table.

    Raises:
        OptionError: the file is not TOML, or the table is not a table.
    """
    folder = start or Path.cwd()
    for place in (folder, *folder.parents):
        path = place / "pyproject.toml"
        if not path.is_file():
            continue
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise OptionError(f"{path} cannot be read: {error}") from error
        table = data.get("tool", {}).get("gaptrace", {})
        if not isinstance(table, dict):
            raise OptionError(f"tool.gaptrace in {path} is not a table")
        own = table.get(command)
        return {**table, **(own if isinstance(own, dict) else {})}
    return {}


def compare_gates(values: Mapping[str, Any]) -> tuple[Gate, ...]:
    """The gates of `gaptrace compare`: flags over settings."""
    from gaptrace.compare.gates import gates_from

    return gates_from(values["fail_on"], settings("compare"))


def analyze_gates(values: Mapping[str, Any]) -> tuple[Gate, ...]:
    """The gates of `gaptrace analyze`: flags over settings.

    Percentages in `[tool.gaptrace]` are meant for comparisons and left out here, unless the table
    is `[tool.gaptrace.analyze]`.
    """
    from gaptrace.compare.gates import gates_from

    given = gates_from(values["fail_on"], None)
    named = {gate.metric.id for gate in given}
    found = settings("analyze")
    own = found.get("analyze")
    relative = isinstance(own, dict) and "fail-on" in own
    kept = [gate for gate in gates_from((), found) if relative or not gate.percent]
    return (*given, *(gate for gate in kept if gate.metric.id not in named))


def no_gates_on(sweeps: Sequence[str], given: Sequence[str], gates: Sequence[Gate]) -> None:
    """Refuse gates on sweeps: a limit holds for one batch size and length, not for all of them.

    `given` are those of `--fail-on`; limits from pyproject.toml are left out with a word about it.

    Raises:
        OptionError: `--fail-on` was given together with a sweep.
    """
    if not sweeps:
        return
    if given:
        raise OptionError(
            f"--fail-on does not apply to {sweeps[0]}: a sweep has a figure for each of its points",
            f"gate one point: gaptrace analyze {sweeps[0].rstrip('/')}/POINT --fail-on LIMIT, or "
            f"all of them against another sweep: gaptrace compare BASE {sweeps[0]} --fail-on LIMIT",
        )
    if gates:
        click.echo("gaptrace: the gates in pyproject.toml are not applied to sweeps", err=True)


def judge_analyses(
    groups: Iterable[tuple[str, Sequence[Analysis]]], gates: Sequence[Gate]
) -> tuple[GateResult, ...]:
    """Every gate on every group of analyses (repeats of one mode, or one trace), with its label.

    A group without GPU work cannot be judged, and every gate says so.
    """
    from msgspec.structs import replace

    from gaptrace.compare.gates import judge_run, not_judged
    from gaptrace.compare.recording import record
    from gaptrace.document.comparison_words import gate_text

    results: list[GateResult] = []
    for label, analyses in groups if gates else ():
        try:
            recordings = [record(analysis) for analysis in analyses]
        except GaptraceError as error:
            results += not_judged(gates, label, error.message)
            continue
        results += judge_run(recordings, gates, label)
    return tuple(replace(result, text=gate_text(result)) for result in results)


def finish_analyze(
    results: Sequence[Analyzed], limits: Sequence[Gate], values: Mapping[str, Any]
) -> int:
    """Judge the gates `limits` of `gaptrace analyze` and tell GitHub if asked to; the exit code.

    The last thing a command does: `values` are its keyword arguments, `results` what it analysed.
    1 where a gate tripped; 2 where nothing was measured or every trace is refused, or `--strict`
    and not every trace is ok or a gate could not be judged.
    """
    from gaptrace.results.run import SweepResult

    groups = groups_of(results)
    gates = judge_analyses(groups, limits)
    found = [analysis for _, analyses in groups for analysis in analyses]
    sweeps = [result for result in results if isinstance(result, SweepResult)]
    if values["github"]:
        findings = dict.fromkeys(
            (f.id, f.title)
            for analysis in found
            for f in analysis.result.findings
            if f.ceiling_ns_per_token > 0
        )
        findings.update(dict.fromkeys(pair for sweep in sweeps for pair in sweep.findings))
        tell_github(summary([report_of(r) for r in results], values), gates, findings)
    if say_gates(gates):
        return 1
    verdicts = {analysis.quality.verdict for analysis in found}
    verdicts.update(v for sweep in sweeps for row in sweep.rows for v in row.verdicts)
    strict = values["strict"] and (verdicts != {"ok"} or unjudged(gates))
    if strict:
        click.echo("gaptrace: --strict: not every trace is ok and every gate judged", err=True)
    return 2 if verdicts <= {"refused"} or strict else 0


def groups_of(results: Sequence[Analyzed]) -> list[tuple[str, Sequence[Analysis]]]:
    """What is judged together, with its label: a trace alone, the repeats of each mode of a run.

    Sweeps are left out: see `no_gates_on`.
    """
    from gaptrace.compare.side import short_label
    from gaptrace.results.run import SweepResult
    from gaptrace.runs.run import RunAnalysis

    groups: list[tuple[str, Sequence[Analysis]]] = []
    for result in results:
        if isinstance(result, RunAnalysis):
            groups += [
                (f"{result.name}/{mode}", result.repeats(mode))
                for mode in result.modes
                if result.repeats(mode)
            ]
        elif not isinstance(result, SweepResult):
            groups.append((short_label(result.source.path), [result]))
    return groups


def say_gates(results: Sequence[GateResult]) -> int:
    """Name every gate that tripped or could not be judged, on stderr; 1 where one tripped."""
    from gaptrace.results.comparison import HELD, TRIPPED

    for result in results:
        if result.status != HELD:
            where = f" [{result.pair}]" if result.pair else ""
            click.echo(
                f"gaptrace: gate {result.gate} {result.status}{where}: {result.text}", err=True
            )
    return int(any(result.status == TRIPPED for result in results))


def unjudged(results: Sequence[GateResult]) -> bool:
    """Whether a gate could not be judged."""
    from gaptrace.results.comparison import NOT_JUDGED

    return any(result.status == NOT_JUDGED for result in results)


def summary(reports: Sequence[Report], values: Mapping[str, Any]) -> str:
    """The reports as a step summary shows them."""
    from gaptrace.document.blocks import Detail
    from gaptrace.render.files import file_text

    return file_text("summary.md", reports, Detail.BRIEF, redact=values["redact"])


def tell_github(
    markdown: str, gates: Sequence[GateResult], findings: Iterable[tuple[str, str]] = ()
) -> None:
    """Append `markdown` to the step summary and annotate gates and findings (id, title).

    Annotations go to stderr, which GitHub reads too, so that stdout stays what was asked for.
    Outside GitHub Actions, where GITHUB_STEP_SUMMARY is not set, only the annotations are printed.
    """
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(_cut(markdown.rstrip("\n") + "\n", SUMMARY_BYTES))
        except OSError as error:
            raise GaptraceError(f"cannot write the step summary: {error.strerror}") from error
    for gate in gates:
        if gate.status != "held":
            level = "error" if gate.status == "tripped" else "warning"
            where = f"{gate.pair}: " if gate.pair else ""
            click.echo(annotation(level, f"gaptrace {gate.gate}", where + gate.text), err=True)
    for name, title in findings:
        click.echo(annotation("warning", name, title), err=True)


def annotation(level: str, title: str, text: str) -> str:
    """A workflow command that GitHub shows beside the job: `::warning title=GT103::...`."""
    return f"::{level} title={_property(title)}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _cut(text: str, most: int) -> str:
    """`text` cut at a line so that it takes at most `most` bytes, with a last line that says so."""
    raw = text.encode("utf-8")
    if len(raw) <= most:
        return text
    kept = raw[: most - 200].decode("utf-8", "ignore").rpartition("\n")[0]
    return f"{kept}\n\n_Cut here: the whole report is {len(raw):,} bytes._\n"
