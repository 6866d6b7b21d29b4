"""What a kernel does and who wrote it, told from its name by the rules in kernel_rules.toml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from gaptrace.knowledge import symbols
from gaptrace.knowledge.inductor_names import InductorName, copy_ops, inductor_parts
from gaptrace.knowledge.short_names import short_name
from gaptrace.knowledge.tables import table

__all__ = [
    "InductorName",
    "KernelKind",
    "backends",
    "classify",
    "inductor_parts",
    "is_split_k_reducer",
    "op_classes",
]


@dataclass(frozen=True)
class KernelKind:
    """What is known about a kernel by its name.

    op_class: `gemm`, `attention`, `communication`, `pointwise`, `copy` or `other`; the criteria
    stand in kernel_rules.toml. backend: the library or compiler that the code comes from, a key of
    `backends()`. short: a name a person recognises, at most 80 characters.
    """

    op_class: str
    backend: str
    short: str


@dataclass(frozen=True)
class _Rule:
    index: int
    pattern: re.Pattern[str]
    whole_name: bool
    op_class: str
    otherwise: str
    backend: str
    only: re.Pattern[str] | None
    unless: re.Pattern[str] | None

    def matches(self, head: str, name: str) -> bool:
        text = name if self.whole_name else head
        return (
            self.pattern.search(text) is not None
            and (self.only is None or self.only.search(text) is not None)
            and (self.unless is None or self.unless.search(text) is None)
        )


@dataclass(frozen=True)
class _Words:
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None
    op_class: str


@lru_cache(maxsize=1)
def _rules() -> tuple[_Rule, ...]:
    def optional(text: str | None) -> re.Pattern[str] | None:
        return None if text is None else re.compile(text)

    return tuple(
        _Rule(
            index=index,
            pattern=re.compile(rule["pattern"]),
            whole_name=rule.get("where", "head") == "name",
            op_class=rule["class"],
            otherwise=rule.get("otherwise", "other"),
            backend=rule["backend"],
            only=optional(rule.get("only")),
            unless=optional(rule.get("unless")),
        )
        for index, rule in enumerate(table("kernel_rules.toml")["rule"])
    )


@lru_cache(maxsize=1)
def _words() -> tuple[_Words, ...]:
    return tuple(
        _Words(
            pattern=re.compile(item["pattern"], re.IGNORECASE),
            unless=re.compile(item["unless"], re.IGNORECASE) if "unless" in item else None,
            op_class=item["class"],
        )
        for item in table("kernel_rules.toml")["words"]
    )


def op_classes() -> dict[str, str]:
    """Ids of the op classes and the words for them, in the order of every table and legend."""
    return dict(table("kernel_rules.toml")["classes"])


def backends() -> dict[str, str]:
    """Every backend that `classify` can answer, with what it stands for."""
    return dict(table("kernel_rules.toml")["backends"])


def _matching_rule(name: str) -> _Rule:
    text = symbols.readable(name)
    head = symbols.head(text)
    return next(rule for rule in _rules() if rule.matches(head, text))


def _class_by_words(text: str, otherwise: str) -> str:
    for item in _words():
        if item.pattern.search(text) and not (item.unless and item.unless.search(text)):
            return item.op_class
    return otherwise


def _class_by_ops(name: str) -> str:
    parts = inductor_parts(name)
    if parts is None or parts.computing or not copy_ops().intersection(parts.ops):
        return "pointwise"
    return "copy"


@lru_cache(maxsize=65536)
def classify(name: str) -> KernelKind:
    """Op class, backend and short name of a GPU op of this name.

    Takes kernels, copies and sets of any vendor, mangled or not. A name that no rule knows is of
    class `other` and backend `unknown`; nothing is an error.
    """
    rule = _matching_rule(name or "?")
    text = symbols.readable(name)
    if rule.op_class == "words":
        head = symbols.head(text)
        # A library's name is no word about the kernel: deep_gemm, fbgemm_gpu.
        scope = text if rule.whole_name else head.partition("::")[2] or head
        op_class = _class_by_words(scope, rule.otherwise)
    elif rule.op_class == "ops":
        op_class = _class_by_ops(name)
    else:
        op_class = rule.op_class
    return KernelKind(op_class, rule.backend, short_name(name))


def is_split_k_reducer(name: str) -> bool:
    """Whether the kernel adds up the parts of a GEMM that was split along K.

    Inside a graph it starts later after its GEMM than other nodes do after theirs
    (`devices.GraphConstants.gap`, kind `splitk`).
    """
    return "splitkreduce" in symbols.head(symbols.readable(name)).lower()
