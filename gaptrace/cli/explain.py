"""`gaptrace explain`: the page of a finding, or the glossary entry of a term."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import textwrap
from typing import Any

import click
from click.shell_completion import CompletionItem

from gaptrace.cli.output import wants_color
from gaptrace.errors import OptionError
from gaptrace.knowledge.glossary import Entry, entries, entry
from gaptrace.knowledge.rules import RulePage, page, pages

SCHEMA = "gaptrace.explain/1"
WIDTH = 80
ASK = "did you mean "
_RULE_ID = re.compile(r"gt\d*", re.IGNORECASE)


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    known = [(page.id, page.title) for page in pages()]
    known += [(entry.id, entry.answer) for entry in entries()]
    start = incomplete.lower()
    return [CompletionItem(n, help=text) for n, text in known if n.lower().startswith(start)]


@click.command()
@click.argument("term", nargs=-1, metavar="[ID|TERM]", shell_complete=_complete)
@click.option("--json", "json_", is_flag=True, help="Print JSON (gaptrace.explain/1).")
def explain(term: tuple[str, ...], *, json_: bool) -> int:
    """Explain a finding (GT101), a cause, or any term of a report.

    Without an argument all findings and terms are listed. A term of several words needs no
    quotes; the names in the JSON output are terms too.
    """
    if not term:
        body = _list_json() if json_ else _list_text()
    else:
        found = lookup(" ".join(term))
        if json_:
            kind = "term" if isinstance(found, Entry) else "finding"
            body = _dump({"kind": kind, **dataclasses.asdict(found)})
        else:
            body = _entry_text(found) if isinstance(found, Entry) else _page_text(found)
    click.echo(body, color=wants_color("auto"))
    return 0


def lookup(term: str) -> RulePage | Entry:
    """The page of a finding or the glossary entry that a term asks for.

    Raises:
        OptionError: there is neither; the hint names the nearest of both.
    """
    if _RULE_ID.fullmatch(term.strip()):
        return page(term)
    by_title = {item.title.lower(): item for item in pages()}
    if term.strip().lower() in by_title:
        return by_title[term.strip().lower()]
    try:
        return entry(term)
    except OptionError as error:
        near = difflib.get_close_matches(term.strip().lower(), by_title, n=2, cutoff=0.6)
        rules = ", ".join(by_title[title].id for title in near)
        hint = error.hint
        if rules:
            rest = hint.removeprefix(ASK) if hint.startswith(ASK) else ""
            hint = f"{ASK}{rules}, {rest}" if rest else f"{ASK}{rules}?"
        raise OptionError(f"nothing is known about {term!r}", hint) from error


def _page_text(page: RulePage) -> str:
    parts = [
        click.style(f"{page.id}  {page.title}", bold=True),
        _wrapped(page.means),
        _section("how we know", page.how_we_know),
        _section("what to try", page.what_to_try),
        _section("how to check", page.how_to_check),
        f"see also: {', '.join(page.see_also)}",
    ]
    return "\n\n".join(parts)


def _entry_text(entry: Entry) -> str:
    title = entry.title if not entry.unit else f"{entry.title}  [{entry.unit}]"
    parts = [click.style(title, bold=True), _wrapped(entry.answer), _wrapped(entry.definition)]
    facts = (
        ("in --json", ", ".join(entry.json)),
        ("source", entry.source),
        ("see also", ", ".join(entry.see)),
    )
    parts.append("\n".join(_wrapped(f"{name}: {fact}", "  ") for name, fact in facts if fact))
    return "\n\n".join(parts)


def _section(title: str, text: str) -> str:
    return f"{click.style(title, bold=True)}\n{_wrapped(text)}"


def _wrapped(text: str, hanging: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )


def _list_text() -> str:
    lines = [click.style("findings", bold=True)]
    lines += [f"  {page.id}  {page.title}" for page in pages()]
    lines += ["", click.style("terms", bold=True)]
    lines += [
        textwrap.fill(
            f"{entry.id}: {entry.answer}", WIDTH, initial_indent="  ", subsequent_indent="      "
        )
        for entry in entries()
    ]
    lines += ["", "gaptrace explain ID|TERM tells all of one."]
    return "\n".join(lines)


def _list_json() -> str:
    rules = [{"id": page.id, "title": page.title} for page in pages()]
    terms = [{"id": entry.id, "title": entry.title} for entry in entries()]
    return _dump({"findings": rules, "terms": terms})


def _dump(data: dict[str, Any]) -> str:
    return json.dumps({"schema": SCHEMA, **data}, indent=2, ensure_ascii=False)
