"""What the text of a mark says: phase, requests and tokens, by the grammars in engines.toml."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gaptrace.knowledge.engines import Beside, LabelStyle, Role, engine_parts, label_styles

DECODE, PREFILL, MIXED, DRAFT, IDLE, CAPTURE = (
    "decode",
    "prefill",
    "mixed",
    "draft",
    "idle",
    "capture",
)
_PAIR = re.compile(r"\b(\w+)=(\d+)", re.ASCII)
# Phases that say nothing about the iteration around them where a later label says more.
_WEAK = (None, DRAFT, IDLE)


@dataclass(frozen=True)
class Label:
    """What a mark's text tells; None where it does not.

    batch: requests in the pass, those that read their prompt included. tokens_low, tokens_high:
    the fewest and the most tokens that the pass can give; both None where the label says nothing,
    `tokens_high` alone where there is no upper bound. prompt_tokens: tokens of prompts read.
    engine: who writes such labels, None for words that anybody uses. style: the form, as
    engines.toml calls it, or the part of the host's time; "" for a text that is no label.
    """

    phase: str | None = None
    batch: int | None = None
    tokens_low: int | None = None
    tokens_high: int | None = None
    engine: str | None = None
    role: Role | None = None
    prompt_tokens: int | None = None
    style: str = ""

    @property
    def known(self) -> bool:
        """Whether the text is a label that an engine writes."""
        return self.engine is not None

    @property
    def tokens(self) -> int | None:
        """Tokens that the pass gives, None where they are known only as bounds or not at all."""
        return self.tokens_low if self.tokens_low == self.tokens_high else None

    def filled_from(self, inner: Label) -> Label:
        """This label with what it lacks taken from a label nested in it.

        A draft or an idle pass within it gives way to whatever else there is, and prefill beside
        decode makes an iteration mixed.
        """
        own = self.role in ("step", "verify") and self.phase is not None
        phases = {self.phase, inner.phase}
        if inner.phase is None or own:
            taken = self
        elif self.phase in _WEAK and inner.phase != self.phase:
            taken = replace(inner, role=self.role, engine=self.engine, style=self.style)
        elif phases == {PREFILL, DECODE} or (
            MIXED in phases and phases <= {PREFILL, DECODE, MIXED}
        ):
            both = phases == {PREFILL, DECODE} and None not in (self.batch, inner.batch)
            batch = (self.batch or 0) + (inner.batch or 0) if both else self.batch
            taken = replace(self, phase=MIXED, batch=batch, tokens_low=None, tokens_high=None)
        else:
            taken = self
        bounds = inner if taken.tokens_low is None and inner.phase == taken.phase else taken
        return replace(
            taken,
            batch=taken.batch if taken.batch is not None else inner.batch,
            tokens_low=bounds.tokens_low,
            tokens_high=bounds.tokens_high,
            engine=taken.engine or inner.engine,
        )


@lru_cache(maxsize=65536)
def read_label(name: str) -> Label:
    """The label in an annotation's text; an unknown text gives an empty label."""
    for style in label_styles():
        if found := style.pattern.search(name):
            return _label(style, found, name)
    for part in engine_parts():
        if part.own_label is not None and part.own_label.search(name):
            return Label(engine=part.engine, role="part", style=part.part)
    return Label()


def marks_step(name: str) -> bool:
    """Whether an engine's label of this text marks a step.

    Drafts and draft extends do not: they belong to the iteration whose `verify` they precede or
    follow. A capture pass holds no step.
    """
    label = read_label(name)
    return label.known and label.role in ("step", "iteration", "verify")


def read_together(labels: Sequence[Label]) -> tuple[Label, ...]:
    """The labels of one trace, each read in the light of the others.

    A style may mean something else beside another: SGLang's `step[DECODE]` of the batch that is
    verified is the draft model, LMDeploy's `forward_eager` beside graph replays is prefill.
    """
    seen: dict[tuple[str | None, Role | None], set[int | None]] = {}
    for label in labels:
        if label.phase is not None:
            seen.setdefault((label.engine, label.role), set()).add(label.batch)
    return tuple(_beside_others(label, seen) for label in labels)


def _beside_others(
    label: Label, seen: dict[tuple[str | None, Role | None], set[int | None]]
) -> Label:
    beside = _besides().get((label.engine, label.style))
    if beside is None or label.phase not in (None, DECODE):
        return label
    if label.batch not in seen.get((label.engine, beside.role), ()):
        return label
    return replace(
        label,
        phase=beside.phase,
        role=beside.becomes or label.role,
        tokens_low=None,
        tokens_high=None,
    )


@lru_cache(maxsize=1)
def _besides() -> dict[tuple[str | None, str], Beside]:
    return {(s.engine, s.style): s.beside for s in label_styles() if s.beside is not None}


def _label(style: LabelStyle, found: re.Match[str], name: str) -> Label:
    texts = found.groupdict()
    facts = {fact: int(text) for fact, text in texts.items() if text and fact != "mode"}
    pairs = {key: int(number) for key, number in _PAIR.findall(name)} if style.fields else {}
    for fact, keys in style.fields.items():
        value = next((pairs[key] for key in keys if key in pairs), None)
        if value is not None:
            facts[fact] = value
    mode = texts.get("mode")
    phase = style.phase if mode is None else style.phases.get(mode, mode.lower())
    context, generation = facts.get("context"), facts.get("generation")
    if phase in (None, DECODE, PREFILL, MIXED) and (context, generation) != (None, None):
        phase = _phase(context or 0, generation or 0)
    batch = facts.get("batch")
    if batch is None and (context, generation) != (None, None):
        batch = (context or 0) + (generation or 0)
    low, high = _bounds(style, phase, facts, batch)
    return Label(
        phase=phase,
        batch=batch,
        tokens_low=low,
        tokens_high=high,
        engine=None if style.shared else style.engine,
        role=style.role,
        prompt_tokens=facts.get("prompt"),
        style=style.style,
    )


def _phase(context: int, generation: int) -> str:
    if context:
        return MIXED if generation else PREFILL
    return DECODE if generation else IDLE


def _bounds(
    style: LabelStyle, phase: str | None, facts: dict[str, int], batch: int | None
) -> tuple[int | None, int | None]:
    """The fewest and the most tokens of a pass that has these requests."""
    if phase == IDLE:
        return 0, 0
    if style.tokens == "unknown":
        return 0, None
    if phase not in (DECODE, PREFILL, MIXED) or batch is None:
        return None, None
    # What the label does not split: all decode, all read prompts, or nobody knows how many do.
    whole = {DECODE: (0, batch), PREFILL: (batch, 0)}.get(phase, (batch, 0))
    context = facts.get("context", whole[0] if "generation" not in facts else 0)
    generation = facts.get("generation", whole[1] if "context" not in facts else 0)
    scheduled = facts.get("scheduled")
    low = generation if scheduled is None else min(generation, scheduled)
    if scheduled is None and style.tokens == "speculative":
        return low, None
    # A prompt that ends in this pass gives its first token.
    return low, max(generation, scheduled or 0) + context
