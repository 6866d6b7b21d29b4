"""Names of kernels that torch.compile generates, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from gaptrace.knowledge.tables import table

# triton_<first three letters of the category>_fused_<op>_<op>_<n>; Triton before 3.0 appended the
# argument signature, `_0d1d2de` (torch/_inductor/codegen/triton.py and utils.py,
# get_fused_kernel_name; both read in torch 2.13). The ops are sorted and unique.
_NAME = re.compile(
    r"triton_(?P<kind>poi|red|per|for|spl|tem|unk|mix)_(?:fused(?:_|$))?(?P<ops>\w*?)_?"
    r"(?:(?<=_)(?P<number>\d+))?(?P<signature>_0d(?:\d+[cde]*)*)?"
)
# unique_kernel_names = False (the default of early torch 2 releases) leaves the prefix alone.
_UNNAMED = re.compile(r"triton_(?:_0d(?:\d+[cde]*)*|_0(?:\d+[cde]*)*)?")
_KINDS = {
    "poi": "pointwise",
    "red": "reduction",
    "per": "persistent_reduction",
    "for": "foreach",
    "spl": "split_scan",
    "tem": "template",
    "mix": "mixed_order_reduction",
    "unk": "unknown",
}


@dataclass(frozen=True)
class InductorName:
    """What the name of a generated kernel says.

    kind: `pointwise`, `reduction`, `persistent_reduction`, `foreach`, `split_scan`, `template`,
    `mixed_order_reduction` or `unknown`. ops: the fused ATen ops, sorted, each once (the order and
    the number of uses are not recorded), views included; empty where naming was switched off.
    number: the suffix that tells kernels of one graph apart, None if absent.
    """

    kind: str
    ops: tuple[str, ...]
    number: int | None

    @property
    def computing(self) -> tuple[str, ...]:
        """The fused ops without views and copies: what the kernel calculates."""
        idle = view_ops() | copy_ops()
        return tuple(op for op in self.ops if op not in idle)


def _words(key: str) -> frozenset[str]:
    words = table("kernel_rules.toml")["inductor"][key]
    return frozenset(str(words).split())


@lru_cache(maxsize=1)
def view_ops() -> frozenset[str]:
    """Ops that only change how a tensor is looked at; in a fused kernel they cost nothing."""
    return _words("view_ops")


@lru_cache(maxsize=1)
def copy_ops() -> frozenset[str]:
    """Ops that move or convert a tensor and calculate nothing."""
    return _words("copy_ops")


@lru_cache(maxsize=1)
def _known() -> dict[str, tuple[str, ...]]:
    """The op names with an underscore by their first two letters, the longest first."""
    found: dict[str, list[str]] = {}
    names = _words("names") | {op for op in view_ops() | copy_ops() if "_" in op}
    for op in sorted(names, key=lambda op: (-len(op), op)):
        found.setdefault(op[:2], []).append(op)
    return {start: tuple(ops) for start, ops in found.items()}


def _split(text: str) -> tuple[str, ...]:
    """The op names that `text` was joined from, by the fewest breaks of the sorted order.

    An op is one of the known names with an underscore, or any single word. Among splits in equally
    good order the one with the fewest ops wins.
    """
    known = _known()
    # best[i]: cheapest split of text[:i] that ends in `last`, as (cost, last, previous split).
    Split = tuple[int, tuple[str, ...]]  # noqa: N806
    best: dict[int, Split] = {0: (0, ())}
    for at in range(len(text)):
        if at not in best:
            continue
        cost, ops = best[at]
        word = re.compile(r"[A-Za-z0-9]+").match(text, at)
        options = [op for op in known.get(text[at : at + 2], ()) if text.startswith(op, at)]
        if word is not None:
            options.append(word[0])
        for op in options:
            end = at + len(op)
            if end < len(text) and text[end] != "_":
                continue
            disorder = 1000 if ops and op <= ops[-1] else 0
            found = (cost + disorder + 1, (*ops, op))
            after = min(end + 1, len(text)) if end < len(text) else len(text)
            if after not in best or found[0] < best[after][0]:
                best[after] = found
    return best[len(text)][1] if len(text) in best else tuple(text.strip("_").split("_"))


@lru_cache(maxsize=16384)
def inductor_parts(name: str) -> InductorName | None:
    """Kind, fused ops and number of a kernel that Inductor generated; None for any other name.

    `triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0` is a reduction of (`_to_copy`, `add`,
    `mean`, `mul`, `pow`, `rsqrt`), number 0.
    """
    if _UNNAMED.fullmatch(name):
        return InductorName(kind="unknown", ops=(), number=None)
    if (match := _NAME.fullmatch(name[:4096])) is None:
        return None
    number = match["number"]
    return InductorName(
        kind=_KINDS[match["kind"]],
        ops=_split(match["ops"]) if match["ops"] else (),
        number=None if number is None else int(number),
    )
