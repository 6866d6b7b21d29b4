"""What a kernel does and who wrote it, told from its name by the rules in kernel_rules.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from gaptrace.knowledge import symbols
from gaptrace.knowledge.inductor_names import copy_ops, inductor_parts
from gaptrace.knowledge.short_names import short_name
from gaptrace.knowledge.tables import table


@dataclass(frozen=True)
class KernelKind:
    """What is known about a kernel by its name.

    op_class: `gemm`, `attention`, `communication`, `pointwise`, `copy` or `other`; the criteria
    stand in kernel_rules.toml. sub_class: what it is called within its class, a key of
    `sub_classes()`. backend: the library or compiler that the code comes from, a key of
    `backends()`. short: a name a person recognises, at most 80 characters.
    """

    op_class: str
    sub_class: str
    backend: str
    short: str


@dataclass(frozen=True)
class _Rule:
    index: int
    pattern: re.Pattern[str]
    where: str
    op_class: str
    otherwise: str
    backend: str
    sub_class: str
    only: re.Pattern[str] | None
    unless: re.Pattern[str] | None

    def matches(self, texts: Mapping[str, str]) -> bool:
        text = texts[self.where]
        return (
            self.pattern.search(text) is not None
            and (self.only is None or self.only.search(text) is not None)
            and (self.unless is None or self.unless.search(text) is None)
        )


@dataclass(frozen=True)
class _Words:
    pattern: re.Pattern[str] | None
    unless: re.Pattern[str] | None
    op_class: str
    weak: bool
    sub_class: str

    def says(self, words: str) -> bool:
        if self.pattern is None:
            return True
        return self.pattern.search(words) is not None and not (
            self.unless and self.unless.search(words)
        )


def _phrases(*patterns: str) -> re.Pattern[str]:
    """Matches any of the patterns in ` words with one space around each `, whole words only."""
    anchored = (re.sub(r"\$$", "(?= $)", re.sub(r"^\^", "(?<=^ )", text)) for text in patterns)
    return re.compile(rf" (?:{'|'.join(anchored)})(?= )")


@lru_cache(maxsize=1)
def _rules() -> tuple[_Rule, ...]:
    def optional(text: str | None) -> re.Pattern[str] | None:
        return None if text is None else re.compile(text)

    return tuple(
        _Rule(
            index=index,
            pattern=(_phrases if rule.get("where") == "words" else re.compile)(rule["pattern"]),
            where=rule.get("where", "head"),
            op_class=rule["class"],
            otherwise=rule.get("otherwise", "other"),
            backend=rule["backend"],
            sub_class=rule.get("sub", ""),
            only=optional(rule.get("only")),
            unless=optional(rule.get("unless")),
        )
        for index, rule in enumerate(table("kernel_rules.toml")["rule"])
    )


@cache
def _words(table_key: str = "words") -> tuple[_Words, ...]:
    return tuple(
        _Words(
            pattern=_phrases(*item["words"]) if "words" in item else None,
            unless=_phrases(*item["unless"]) if "unless" in item else None,
            op_class=item["class"],
            weak=item.get("weak", False),
            sub_class=item.get("id", ""),
        )
        for item in table("kernel_rules.toml")[table_key]
    )


@lru_cache(maxsize=1)
def _left_out() -> re.Pattern[str]:
    return _phrases(*table("kernel_rules.toml")["words_left_out"]["words"])


# Triton before 3.0 appended the argument signature to a name: `_fwd_kernel_0d1d2de`.
_SIGNATURE = re.compile(r"_0d(?:\d+[cde]*)*$")


def _words_of(text: str) -> str:
    return _left_out().sub("", f" {symbols.words(_SIGNATURE.sub('', text))} ")


def sub_classes() -> dict[str, str]:
    """Ids of the sub-classes and the words for them, those of one op class together."""
    return {item["id"]: item["label"] for item in table("kernel_rules.toml")["sub_class"]}


def backends() -> dict[str, str]:
    """Every backend that `classify` can answer, with what it stands for."""
    return dict(table("kernel_rules.toml")["backends"])


def _matching_rule(name: str) -> _Rule:
    text = symbols.readable(name)
    head = symbols.head(text)
    texts = {"head": head, "name": text, "words": f" {symbols.words(head)} "}
    return next(rule for rule in _rules() if rule.matches(texts))


def _class_by_words(scopes: Sequence[str], otherwise: str) -> str:
    """The class that the first telling row gives to the first scope that tells, plain rows first.

    The scopes are words, the narrowest first: the function's own name, then where it lives.
    """
    for weak in (False, True):
        for words in scopes:
            for item in _words():
                if item.weak is weak and item.says(words):
                    return item.op_class
    return otherwise


def _scopes(text: str, rule: _Rule) -> tuple[str, ...]:
    head = symbols.head(text)
    spaces, _, function = head.rpartition("::")
    # A library's name is no word about the kernel: deep_gemm, fbgemm_gpu.
    inner = spaces.partition("::")[2]
    own = (_words_of(function), _words_of(inner))
    return (*own, _words_of(text[len(head) :])) if rule.where == "name" else own


@cache
def _sub_class_rows(op_class: str) -> tuple[_Words, ...]:
    return tuple(row for row in _words("sub_class") if row.op_class == op_class)


@lru_cache(maxsize=16384)
def _sub_class(op_class: str, head: str, short: str) -> str:
    """The first sub-class that the function with its namespaces tells, else the short name."""
    rows = _sub_class_rows(op_class)
    if len(rows) == 1:
        return rows[0].sub_class
    for text in dict.fromkeys((head, short)):
        words = _words_of(text)
        row = next(row for row in rows if row.says(words))
        if row.pattern is not None:
            break
    return row.sub_class


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
        op_class = _class_by_words(_scopes(text, rule), rule.otherwise)
    elif rule.op_class == "ops":
        op_class = _class_by_ops(name)
    else:
        op_class = rule.op_class
    short = short_name(name)
    sub_class = rule.sub_class or _sub_class(op_class, symbols.head(text), short)
    return KernelKind(op_class, sub_class, rule.backend, short)


def is_split_k_reducer(name: str) -> bool:
    """Whether the kernel adds up the parts of a GEMM that was split along K.

    Inside a graph it starts later after its GEMM than other nodes do after theirs
    (`devices.GraphConstants.gap`, kind `splitk`).
    """
    return "splitkreduce" in symbols.head(symbols.readable(name)).lower()
