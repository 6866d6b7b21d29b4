"""Which file ending gives which form of a result: the one door to all renderers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from gaptrace.errors import GaptraceError, OptionError
from gaptrace.report.privacy import Privacy

if TYPE_CHECKING:
    from gaptrace.compare.result import Comparison
    from gaptrace.measure.result import Analysis
    from gaptrace.runs.run import RunAnalysis
    from gaptrace.runs.sweep import SweepAnalysis

Result: TypeAlias = "Analysis | RunAnalysis | SweepAnalysis | Comparison"
Reportable: TypeAlias = "Result | Sequence[Analysis | RunAnalysis | SweepAnalysis]"


def kinds() -> tuple[str, ...]:
    """The endings of files that a result can be written to."""
    return tuple(_RENDERERS)


def render_report(path: str, result: Reportable, privacy: Privacy = Privacy.OPEN) -> str:
    """The result in the form that the ending of `path` asks for.

    Several analyses or runs become one file: one after another in text and Markdown, side by side
    in HTML, one object in JSON.

    Raises:
        OptionError: the ending is none of `kinds()`, or the result has no such form.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending not in _RENDERERS:
        raise OptionError(
            f"-o {path}: cannot write that kind", f"end it in {', '.join(_RENDERERS)}"
        )
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    if not results:
        raise OptionError(f"-o {path}: there is no result to write")
    return _RENDERERS[ending](results, privacy)


def write_report(path: str, result: Reportable, privacy: Privacy = Privacy.OPEN) -> None:
    """Write the result to a file, whole or not at all.

    Raises:
        OptionError: as `render_report`. GaptraceError: the file cannot be written.
    """
    text = render_report(path, result, privacy)
    part = f"{path}.part"
    try:
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(part, path)
    except OSError as error:
        raise GaptraceError(f"cannot write {path}: {error.strerror}") from error


def _html(results: Sequence[Any], privacy: Privacy) -> str:
    from gaptrace.compare.result import Comparison
    from gaptrace.report.html import render_analysis_html
    from gaptrace.report.html_compare import render_comparison_html
    from gaptrace.report.html_run import render_analyses_html, render_run_html
    from gaptrace.report.sweep_page import render_sweep_html
    from gaptrace.runs.run import RunAnalysis
    from gaptrace.runs.sweep import SweepAnalysis

    if any(isinstance(item, SweepAnalysis) for item in results):
        if len(results) > 1:
            raise OptionError(
                "a sweep has an HTML file of its own", "write each result to a file of its own"
            )
        return render_sweep_html(results[0], privacy)
    if len(results) > 1:
        return render_analyses_html(_flat(results), privacy)
    (only,) = results
    if isinstance(only, Comparison):
        return render_comparison_html(only, privacy)
    if isinstance(only, RunAnalysis):
        return render_run_html(only, privacy)
    return render_analysis_html(only, privacy)


def _flat(results: Sequence[Any]) -> list[Analysis]:
    """Analyses as they are, runs as the representatives of their modes."""
    from gaptrace.runs.run import RunAnalysis

    found: list[Analysis] = []
    for item in results:
        if isinstance(item, RunAnalysis):
            modes = [item.representative(mode) for mode in item.modes]
            found += [analysis for analysis in modes if analysis is not None]
        else:
            found.append(item)
    if not found:
        raise OptionError("none of these runs holds a recording")
    return found


def _markdown(results: Sequence[Any], privacy: Privacy) -> str:
    from gaptrace.compare.result import Comparison
    from gaptrace.report.github import COMMENT_LIMIT, MARKER
    from gaptrace.report.markdown import (
        render_analysis_markdown,
        render_comparison_markdown,
        render_run_markdown,
    )
    from gaptrace.report.sweep_text import render_sweep_markdown
    from gaptrace.runs.run import RunAnalysis
    from gaptrace.runs.sweep import SweepAnalysis

    texts = []
    for item in results:
        if isinstance(item, Comparison):
            texts.append(render_comparison_markdown(item, privacy))
        elif isinstance(item, RunAnalysis):
            texts.append(render_run_markdown(item, privacy))
        elif isinstance(item, SweepAnalysis):
            texts.append(render_sweep_markdown(item, privacy))
        else:
            texts.append(render_analysis_markdown(item, privacy))
    body = [text.removeprefix(MARKER) for text in texts]
    kept = f"{MARKER}{body[0]}"
    for i, text in enumerate(body[1:], start=1):
        if len(kept) + len(text) > COMMENT_LIMIT - 100:
            return f"{kept}\n{len(body) - i} more results did not fit into a comment.\n"
        kept += text
    return kept


def _svg(results: Sequence[Any], privacy: Privacy) -> str:
    from gaptrace.compare.result import Comparison
    from gaptrace.report.svg import render_bridge_svg, render_run_svg, render_step_svg
    from gaptrace.runs.run import RunAnalysis
    from gaptrace.runs.sweep import SweepAnalysis

    del privacy  # a picture holds no paths
    first = results[0]
    if len(results) > 1:
        raise OptionError("one SVG holds one picture", "write each result to a file of its own")
    if isinstance(first, Comparison):
        return render_bridge_svg(first)
    if isinstance(first, SweepAnalysis):
        from gaptrace.report.sweep_page import render_sweep_svg

        return render_sweep_svg(first)
    return render_run_svg(first) if isinstance(first, RunAnalysis) else render_step_svg(first)


def _json(results: Sequence[Any], privacy: Privacy) -> str:
    from gaptrace.report.html import redacted

    found = [item.summary for item in results]
    data: Any = (
        found[0] if len(found) == 1 else {"schema": "gaptrace.analyses/1", "analyses": found}
    )
    if privacy is Privacy.REDACTED:
        data = redacted(data, privacy)
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _text(results: Sequence[Any], privacy: Privacy) -> str:
    from gaptrace.compare.result import Comparison
    from gaptrace.report.compare_text import comparison_report
    from gaptrace.report.run_text import run_report
    from gaptrace.report.sweep_text import sweep_report
    from gaptrace.report.text import text_report
    from gaptrace.runs.run import RunAnalysis
    from gaptrace.runs.sweep import SweepAnalysis

    texts = []
    for item in results:
        if isinstance(item, Comparison):
            texts.append(comparison_report(item, color=False))
        elif isinstance(item, RunAnalysis):
            texts.append(run_report(item, color=False))
        elif isinstance(item, SweepAnalysis):
            texts.append(sweep_report(item, color=False))
        else:
            texts.append(text_report(item, color=False))
    return privacy.text("\n\n".join(texts)) + "\n"


_RENDERERS: Mapping[str, Callable[[Sequence[Any], Privacy], str]] = {
    ".html": _html,
    ".md": _markdown,
    ".svg": _svg,
    ".json": _json,
    ".txt": _text,
}
