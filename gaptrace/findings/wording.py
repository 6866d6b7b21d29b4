"""Sentences of findings: the templates of rules.toml, filled with typed facts.

A field `{name}` is a fact or a clause. A clause is printed where all its facts are known and the
rule did not say False under its name; one without facts where the rule said True. A list of
clauses prints those, with commas between. The field `{calls:launch call}` is a count with its
noun, `{n:kernel was|kernels were}` one with an irregular plural. An `Amount` called `late` also
gives `{late.rare}`, which says that it is a mean over few steps, and `{late.idle}`, which says how
much of it is left without a profiler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gaptrace import units
from gaptrace.knowledge.rules import common_clauses, template
from gaptrace.measure.amount import Amount
from gaptrace.quantity import COUNT, EXACT, NS, RANGE, TRACED, Bound, Quantity

Fact = Quantity | Amount | str | bool | None
Clauses = Mapping[str, str | Sequence[str]]
_FIELD = re.compile(r"\{([\w.]+)(?::([^{}|]+)(?:\|([^{}]+))?)?\}")


def quantity(
    value: float | None, unit: str, basis: str = TRACED, bound: Bound = EXACT
) -> Quantity | None:
    """A number of a finding; None where it is not known, so that no clause with it is printed."""
    return None if value is None else Quantity(float(value), unit, basis, bound)


def title_text(rule: str, variant: str, facts: Mapping[str, Fact]) -> str:
    """The title of a finding; `variant` names one of the rule's `titles`, empty the usual one."""
    known = template(rule)
    return _filled(known.titles[variant] if variant else known.title, facts, {})


def clause_text(rule: str, name: str, facts: Mapping[str, Fact]) -> str:
    """One clause of a rule by itself; `text` is the whole of what it says."""
    known = template(rule)
    main = {"text": known.text, "evidence": known.evidence}
    return _filled(main.get(name) or known.clauses[name], facts, known.clauses)


def common_text(name: str, facts: Mapping[str, Fact]) -> str:
    """A clause that belongs to no one rule."""
    return _filled(common_clauses()[name], facts, common_clauses())


def _filled(text: str | Sequence[str], facts: Mapping[str, Fact], clauses: Clauses) -> str:
    filled = _fill(text, {**facts, **dict(_of_amounts(facts))}, clauses)
    if filled is None:
        raise KeyError(f"a fact is missing for {text!r}")
    return re.sub(r"[ \n]+", " ", filled).strip()


def _of_amounts(facts: Mapping[str, Fact]) -> Iterator[tuple[str, str | None]]:
    """The words that amounts stand for, besides their numbers."""
    for name, amount in facts.items():
        if not isinstance(amount, Amount):
            continue
        traced = amount.ns if amount.traced is None else amount.traced
        parts: dict[str, Fact] = {
            "unit": facts.get("unit"),
            "traced": Quantity(traced, NS),
            "left": amount.quantity,
            "some": Quantity(amount.steps, COUNT),
            "of": Quantity(amount.of, COUNT),
            "rare": not amount.typical,
            "some_left": 0 < amount.ns < traced,
            "none_left": amount.ns == 0 < traced,
        }
        for key in ("rare", "idle"):
            yield f"{name}.{key}", _fill(f"{{{key}}}", parts, common_clauses())


def _fill(text: str | Sequence[str], facts: Mapping[str, Fact], clauses: Clauses) -> str | None:
    """The text with its fields, None where a fact is not known."""
    if not isinstance(text, str):
        parts = [part for item in text if (part := _fill(item, facts, clauses))]
        return ", ".join(parts) if parts else None
    unknown = False

    def field(match: re.Match[str]) -> str:
        nonlocal unknown
        name, one, many = match.groups()
        fact = facts.get(name)
        if name in clauses:
            wanted = fact is not False and (fact is True or _FIELD.search(str(clauses[name])))
            return (_fill(clauses[name], facts, clauses) or "") if wanted else ""
        if fact is None or isinstance(fact, bool):
            unknown = True
            return ""
        if isinstance(fact, str):
            return fact
        number = fact.quantity if isinstance(fact, Amount) else fact
        # What bounds it is for the sentence to say.
        bare = Quantity(number.value, number.unit)
        shown = units.text(number if number.bound == RANGE else bare)
        if one is None:
            return shown
        return f"{shown} {one if number.value == 1 else many or f'{one}s'}"

    filled = _FIELD.sub(field, text)
    return None if unknown else filled
