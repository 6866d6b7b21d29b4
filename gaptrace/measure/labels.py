"""What the text of a step mark says: phase, requests and tokens, for each engine's format.

Formats: vLLM `execute_context_{Rc}({Tc})_generation_{Rg}({Tg})` and its detailed form
`execute_{total}_context_{Rc}(sq..)_generation_{Rg}(sq..)` (decode exactly when Rc is 0); SGLang
`step[MODE bs=N ...]`; TensorRT-LLM `_forward_step N: C ctx reqs, T ctx tokens, G gen reqs`; ATOM
`decode[bs=N tok=T ...]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_VLLM = re.compile(
    r"execute_(?:\d+_)?context_(\d+)\(([^)]*)\)_generation_(\d+)\(([^)]*)\)", re.ASCII
)
_SGLANG = re.compile(r"step\[(\w+)((?:\s+[\w.]+=\S+)*)\s*\]?")
_TRTLLM = re.compile(
    r"_forward_step\s+\d+:\s*(\d+) ctx reqs, (\d+) ctx tokens, (\d+) gen reqs", re.ASCII
)
_ATOM = re.compile(r"(decode|prefill|mixed|draft)\[bs=(\d+)(?:/\d+)?(?: tok=(\d+))?")
_SQ = re.compile(r"sq(\d+)", re.ASCII)

DECODE, PREFILL, MIXED, DRAFT, IDLE = "decode", "prefill", "mixed", "draft", "idle"
_SGLANG_PHASES = {
    "DECODE": DECODE,
    "VERIFY": DECODE,
    "TARGET_VERIFY": DECODE,
    "EXTEND": PREFILL,
    "PREFILL": PREFILL,
    "SPLIT_PREFILL": PREFILL,
    "MIXED": MIXED,
    "DRAFT": DRAFT,
    "DRAFT_EXTEND": DRAFT,
    "DRAFT_EXTEND_V2": DRAFT,
    "IDLE": IDLE,
    "DUMMY_FIRST": IDLE,
}


@dataclass(frozen=True)
class Label:
    """Phase, batch and generated tokens as a mark's text tells them; None where it does not."""

    phase: str | None = None
    batch: int | None = None
    tokens: int | None = None
    engine: str | None = None

    @property
    def known(self) -> bool:
        """Whether the text was one of the formats read here."""
        return self.phase is not None

    def filled_from(self, inner: Label) -> Label:
        """This label with what it lacks taken from a label nested in it."""
        return replace(
            self,
            phase=self.phase or inner.phase,
            batch=self.batch if self.batch is not None else inner.batch,
            tokens=self.tokens if self.tokens is not None else inner.tokens,
            engine=self.engine or inner.engine,
        )


def read_label(name: str) -> Label:
    """The label in an annotation's text; an unknown text gives an empty label."""
    if found := _VLLM.search(name):
        return _vllm(*found.groups())
    if found := _SGLANG.match(name):
        mode, pairs = found.groups()
        batch = re.search(r"\bbs=(\d+)", pairs, re.ASCII)
        size = int(batch[1]) if batch else None
        phase = _SGLANG_PHASES.get(mode, mode.lower())
        return Label(phase, size, size if phase == DECODE else None, "SGLang")
    if found := _TRTLLM.search(name):
        context, _, generation = map(int, found.groups())
        return Label(_phase(context, generation), generation, generation, "TensorRT-LLM")
    if found := _ATOM.match(name):
        phase, batch_text, tokens = found.groups()
        return Label(phase, int(batch_text), int(tokens or batch_text), "ATOM")
    return Label()


def _vllm(context: str, _: str, generation: str, detail: str) -> Label:
    query = _SQ.match(detail)
    text = query[1] if query else detail.partition("_")[0]
    tokens = int(text) if text.isdigit() else None
    requests = int(generation)
    return Label(_phase(int(context), requests), requests, tokens, "vLLM")


def _phase(context: int, generation: int) -> str:
    if context:
        return MIXED if generation else PREFILL
    return DECODE if generation else IDLE
