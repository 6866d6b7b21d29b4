"""Kernels of two sides matched: by name, by what they fuse, by op, and by class.

Kernels of one name are one row. What is left on both sides, the removed and the added names, is
put into groups that say what replaced what: a compiled kernel stands beside the plain kernels of
the ops it fuses; kernels of one op (another GEMM of `aten::mm`) stand beside each other; so do
those of one class where no op is known. Nothing here looks at how kernels were launched, so a
graph replay compares with plain launches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gaptrace.compare.op_names import op_of, ops_of_compiled
from gaptrace.compare.recording import Recording, UsedKernel
from gaptrace.knowledge.kernel_names import classify
from gaptrace.measure.kernels import OP_CLASSES
from gaptrace.results.comparison import (
    KernelChange,
    KernelComparison,
    KernelGroup,
    KernelUse,
    Member,
)

# A row counts as changed when its time moved by this share, or when its count moved.
CHANGED = 0.05
# Of two compiled kernels the sets of fused ops must overlap by this much to stand for each other.
ALIKE = 0.5
# Kernels that a generated kernel never replaces: libraries do these.
LIBRARY_CLASSES = ("gemm", "attention", "communication")
NOTHING = KernelUse(0.0, 0.0, 0)


@dataclass
class Name:
    """One GPU op name on one side: ns and executions per token, of which `left` is unmatched."""

    name: str
    short: str
    op_class: str
    op: str
    ops: tuple[str, ...]
    use: KernelUse

    def member(self, share: float = 1.0) -> Member:
        """The name as a member of a group, with a share of its use."""
        return Member(
            self.name,
            self.short,
            self.op,
            self.use.per_token * share,
            self.use.ns_per_token * share,
        )


def match_kernels(
    baseline: Sequence[Recording],
    candidate: Sequence[Recording],
    learned: Mapping[str, str] | None = None,
) -> KernelComparison:
    """All GPU ops of both sides by name, and groups of what replaced what.

    Uses are per token over all runs of a side. learned: op by kernel name, from recordings that
    know it; replays do not.
    """
    ops = {**(learned or {}), **learn_ops((*baseline, *candidate))}
    left, right = _names(baseline, ops), _names(candidate, ops)
    removed = {name: left[name] for name in left if name not in right}
    added = {name: right[name] for name in right if name not in left}
    groups = _groups(removed, added)
    member_of: dict[str, str] = {}
    for group in groups:
        for member in (*group.baseline, *group.candidate):
            member_of.setdefault(member.name, group.id)
    rows = [
        _change(name, left.get(name), right.get(name), member_of.get(name, ""))
        for name in dict.fromkeys((*left, *right))
    ]
    rows.sort(key=lambda row: (-abs(row.delta_ns), row.name))
    return KernelComparison(_by_class(left.values(), right.values()), tuple(rows), groups)


def learn_ops(recordings: Iterable[Recording]) -> dict[str, str]:
    """Op by kernel name, from every recording that knows it."""
    return {
        kernel.name: kernel.op
        for recording in recordings
        for kernel in recording.kernels
        if kernel.op.startswith("aten::")
    }


def _names(side: Sequence[Recording], learned: Mapping[str, str]) -> dict[str, Name]:
    tokens = sum(recording.kernel_tokens for recording in side) or 1
    found: dict[str, list[UsedKernel]] = defaultdict(list)
    for recording in side:
        for kernel in recording.kernels:
            found[kernel.name].append(kernel)
    result = {}
    for name, uses in found.items():
        kind = classify(name)
        medians = sorted(use.median_ns for use in uses)
        result[name] = Name(
            name=name,
            short=kind.short,
            op_class=uses[0].op_class,
            op=op_of(name, learned.get(name, uses[0].op)),
            ops=ops_of_compiled(name),
            use=KernelUse(
                sum(use.count for use in uses) / tokens,
                sum(use.total_ns for use in uses) / tokens,
                medians[(len(medians) - 1) // 2],
            ),
        )
    return result


def _change(name: str, left: Name | None, right: Name | None, group: str) -> KernelChange:
    known = left or right
    assert known is not None
    before, after = (NOTHING if side is None else side.use for side in (left, right))
    count = after.per_token - before.per_token
    time = after.ns_per_token - before.ns_per_token
    status = "removed" if right is None else "added" if left is None else "same"
    if status == "same" and (abs(time) > CHANGED * before.ns_per_token or abs(count) > 1e-9):
        status = "changed"
    return KernelChange(
        name=name,
        short=known.short,
        op_class=known.op_class,
        op=known.op,
        status=status,
        fuses=known.ops,
        group=group,
        baseline=left.use if left else None,
        candidate=right.use if right else None,
        delta_count=count,
        delta_ns=time,
    )


def _by_class(left: Iterable[Name], right: Iterable[Name]) -> dict[str, tuple[float, float]]:
    sums = {name: [0.0, 0.0] for name in OP_CLASSES}
    for side, names in enumerate((left, right)):
        for item in names:
            sums[item.op_class][side] += item.use.ns_per_token
    return {name: (pair[0], pair[1]) for name, pair in sums.items()}


def _groups(removed: dict[str, Name], added: dict[str, Name]) -> tuple[KernelGroup, ...]:
    """Groups over the names that only one side has; each use of a name is in at most one group."""
    left, right = dict(removed), dict(added)
    groups = _recompiled(left, right)
    groups += _replaced(left, right, swap=False)
    groups += _replaced(right, left, swap=True)
    groups += _same_class(left, right)
    groups.sort(key=lambda group: (-abs(group.delta_ns), group.title))
    return tuple(replace(group, id=f"g{i}") for i, group in enumerate(groups, start=1))


def _recompiled(left: dict[str, Name], right: dict[str, Name]) -> list[KernelGroup]:
    """Compiled kernels on both sides that fuse the same ops, or mostly the same."""
    groups = []
    by_ops: dict[tuple[str, ...], tuple[list[Name], list[Name]]] = {}
    for side, names in enumerate((left, right)):
        for item in names.values():
            if item.ops:
                by_ops.setdefault(item.ops, ([], []))[side].append(item)
    whole = [ops for ops, pair in by_ops.items() if pair[0] and pair[1]]
    pairs = [(ops, ops) for ops in whole]
    mine = [ops for ops, pair in by_ops.items() if pair[0] and not pair[1]]
    yours = [ops for ops, pair in by_ops.items() if pair[1] and not pair[0]]
    likeness = sorted((-overlap(a, b), a, b) for a in mine for b in yours if overlap(a, b) >= ALIKE)
    used: set[tuple[int, tuple[str, ...]]] = set()
    for _, a, b in likeness:
        if (0, a) not in used and (1, b) not in used:
            used |= {(0, a), (1, b)}
            pairs.append((a, b))
    for a, b in pairs:
        before, after = by_ops[a][0], by_ops[b][1]
        groups.append(_group("fusion", f"fused: {', '.join(b)}", before, after))
        for item in before:
            left.pop(item.name)
        for item in after:
            right.pop(item.name)
    return groups


def overlap(a: Iterable[str], b: Iterable[str]) -> float:
    """The ops that two kernels have in common, as a share of all that either has."""
    both, either = set(a) & set(b), set(a) | set(b)
    return len(both) / len(either) if either else 0.0


def _replaced(left: dict[str, Name], right: dict[str, Name], *, swap: bool) -> list[KernelGroup]:
    """Plain kernels of the left beside what does their op on the right: compiled or plain.

    Where several kernels on the right do one op, the plain kernels of that op are shared out by
    how often each of them runs: the names do not say which execution went where.
    """
    by_ops: dict[tuple[str, ...], list[Name]] = defaultdict(list)
    for item in right.values():
        if item.ops:
            by_ops[item.ops].append(item)
    takers = list(by_ops.items())
    plain_ops = dict.fromkeys(item.op for item in left.values() if item.op and not item.ops)
    for op in plain_ops:
        same = [item for item in right.values() if item.op == op and not item.ops]
        if same:
            takers.append(((op,), same))
    weight: dict[tuple[str, bool], float] = defaultdict(float)
    for ops, items in takers:
        runs = sum(item.use.per_token for item in items)
        for op in ops:
            weight[op, False] += runs
            if not items[0].ops:
                weight[op, True] += runs
    groups, taken = [], set()
    for ops, items in takers:
        runs = sum(item.use.per_token for item in items)
        replaced = []
        for other in left.values():
            # Libraries do these: no generated kernel stands for them.
            library = other.op_class in LIBRARY_CLASSES
            if other.ops or other.op not in ops or (library and items[0].ops):
                continue
            if whole := weight[other.op, library]:
                replaced.append(other.member(runs / whole))
                taken.add(other.name)
        compiled = bool(items[0].ops)
        own = tuple(item.member() for item in items)
        title = f"fused: {', '.join(ops)}" if compiled else f"aten::{ops[0]}"
        sides = (own, tuple(replaced)) if swap else (tuple(replaced), own)
        by = "fusion" if compiled else "op"
        if replaced:
            groups.append(_members(by, title, items[0].op_class, *sides))
            for item in items:
                right.pop(item.name)
    for name in taken:
        left.pop(name)
    return groups


def _same_class(left: dict[str, Name], right: dict[str, Name]) -> list[KernelGroup]:
    """Library kernels of one class where the op is unknown or differs on the two sides."""
    groups = []
    for kind in LIBRARY_CLASSES:
        before = [item for item in left.values() if item.op_class == kind]
        after = [item for item in right.values() if item.op_class == kind]
        if before and after:
            groups.append(_group("class", kind, before, after))
    return groups


def _group(by: str, title: str, before: Sequence[Name], after: Sequence[Name]) -> KernelGroup:
    sides = (tuple(item.member() for item in side) for side in (before, after))
    return _members(by, title, (after or before)[0].op_class, *sides)


def _members(
    by: str, title: str, op_class: str, before: tuple[Member, ...], after: tuple[Member, ...]
) -> KernelGroup:
    return KernelGroup(
        id="",
        by=by,
        title=title,
        op_class=op_class,
        delta_count=sum(m.per_token for m in after) - sum(m.per_token for m in before),
        delta_ns=sum(m.ns_per_token for m in after) - sum(m.ns_per_token for m in before),
        baseline=before,
        candidate=after,
    )
