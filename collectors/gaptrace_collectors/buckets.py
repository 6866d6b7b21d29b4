"""Shape buckets: the length that grows is padded up to one of a few sizes, each with its graph.

Two ways. An explicit step goes to any length (`step.seek(n)`) and pads itself (`step.pad_to(n)`);
then every bucket is prepared before anything is measured, and measured by itself. An unmodified
script is padded where a tensor that it passes to the module grows by one each step; its buckets are
prepared when it reaches them.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from gaptrace_collectors.failure import Evidence, Failure, ModeFailureError
from gaptrace_collectors.tensors import flat_arguments

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class _Use:
    """Consecutive steps of one phase that used one bucket."""

    phase: str
    first: int
    last: int
    bucket: int | None
    steps: int = 1


@dataclass
class Buckets:
    """Which bucket each step uses, and what preparing them cost.

    All modes are padded, so that all do the same work; while `exact` is set, nothing is.
    """

    sizes: tuple[int, ...]
    source: str
    exact: bool = False
    phase: str = "check"
    current: int | None = None
    length: int = 0
    next_length: int = 1
    uses: list[_Use] = field(default_factory=list)
    prepared: list[dict[str, Any]] = field(default_factory=list)
    padded: list[str] = field(default_factory=list)
    shared_pool: bool = False

    def enter(self, length: int) -> int:
        """A step of this length begins; how many positions it is to work on."""
        fitting = next((size for size in self.sizes if size >= length), None)
        if fitting is None:
            raise ModeFailureError(
                Failure(
                    "bucket_too_small",
                    f"the step needs {length} positions, the largest bucket holds {self.sizes[-1]}",
                    (Evidence("--buckets", "", ",".join(map(str, self.sizes))),),
                )
            )
        self.length, self.current = length, fitting
        last = self.uses[-1] if self.uses else None
        if (
            last is not None
            and last.phase == self.phase
            and last.bucket == fitting
            and length == last.last + 1
        ):
            last.last = length
            last.steps += 1
        else:
            self.uses.append(_Use(self.phase, length, length, fitting))
        return length if self.exact else fitting

    def below(self, size: int) -> int:
        """The largest length that a smaller bucket still holds; 0 below the smallest."""
        return max((other for other in self.sizes if other < size), default=0)

    def section(self, this: int | None, medians: dict[int, int]) -> dict[str, Any]:
        """The `buckets` section of run.json, for the bucket `this` or for all."""
        steps = [
            {
                "phase": use.phase,
                "lengths": [use.first, use.last],
                "bucket": use.bucket,
                "steps": use.steps,
            }
            for use in self.uses
            if use.phase not in ("prepare", "check", "warm-up")
            and (this is None or use.bucket == this)
        ]
        return {
            "sizes": list(self.sizes),
            "this": this,
            "source": self.source,
            "padded": self.padded,
            "prepared": self.prepared,
            "shared_pool": self.shared_pool,
            "steps": steps,
            "padding_share": self._padding_share(this),
            "median_ns": {str(size): ns for size, ns in sorted(medians.items())},
        }

    def _padding_share(self, this: int | None) -> float | None:
        """1 - mean(length / bucket) over the timed steps: positions read that are padding."""
        filled = [
            (use.steps, (use.first + use.last) / 2 / use.bucket)
            for use in self.uses
            if use.phase.startswith("timed")
            and use.bucket is not None
            and (this is None or use.bucket == this)
        ]
        count = sum(steps for steps, _ in filled)
        if not count:
            return None
        return round(1 - sum(steps * share for steps, share in filled) / count, 6)


def padded_step(
    step: Callable[[], Any], call: Callable[..., Any], buckets: Buckets
) -> Callable[..., Any]:
    """`call`, with the explicit step padded to its bucket first.

    A replayed step runs no Python, so the length is counted here: from where the step was sent, one
    more with every call.
    """
    pad_to: Callable[[int], Any] = step.pad_to  # type: ignore[attr-defined]
    padded_to: list[int | None] = [None]

    def padded() -> Any:
        size = buckets.enter(buckets.next_length)
        buckets.next_length += 1
        if size != padded_to[0]:
            pad_to(size)
            padded_to[0] = size
        return call()

    return padded


class GrowingInputs:
    """Pads the tensors that an unmodified script passes and that grow by one each step.

    The first calls run as they are, through `plain`, and show which dimension of which tensor
    grows. Masks are padded so that the padding is masked out: False, 0, or the most negative
    number.
    """

    _OBSERVED = 3

    def __init__(self, plain: Callable[..., Any], buckets: Buckets) -> None:
        self._plain = plain
        self._buckets = buckets
        self._seen: list[dict[str, tuple[int, ...]]] = []
        self._dims: dict[str, int] = {}

    def padded(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call`, with growing inputs padded to their bucket."""

        def padded(*args: Any, **kwargs: Any) -> Any:
            if len(self._seen) < self._OBSERVED:
                self._observe(args, kwargs)
                return self._plain(*args, **kwargs)
            if not self._dims:
                self._learn()
            length = self._length(args, kwargs)
            size = self._buckets.enter(length)
            if self._buckets.exact:
                return call(*args, **kwargs)
            new_args = tuple(self._pad(item, f"arg{n}", size) for n, item in enumerate(args))
            new_kwargs = {name: self._pad(item, name, size) for name, item in kwargs.items()}
            return call(*new_args, **new_kwargs)

        return padded

    def _observe(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._seen.append({name: tuple(t.shape) for name, t in flat_arguments(args, kwargs)})

    def _learn(self) -> None:
        first, *later = self._seen
        for name, shape in first.items():
            for dim, size in enumerate(shape):
                grown = [seen.get(name, ())[dim : dim + 1] for seen in later]
                if grown == [(size + n,) for n in range(1, len(later) + 1)]:
                    self._dims[name] = dim
        if not self._dims:
            constant = [
                Evidence(name, "", f"always {list(shape)}") for name, shape in first.items()
            ]
            raise ModeFailureError(
                Failure(
                    "nothing_to_pad",
                    "no tensor that the script passes grows by one each step; what grows inside of"
                    " an object (a cache) cannot be padded from outside",
                    tuple(constant[:8]),
                )
            )
        self._buckets.padded = [f"{name} dimension {dim}" for name, dim in self._dims.items()]

    def _length(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        shapes = {name: tensor.shape for name, tensor in flat_arguments(args, kwargs)}
        return max(int(shapes[name][dim]) for name, dim in self._dims.items() if name in shapes)

    def _pad(self, value: Any, name: str, size: int) -> Any:
        if isinstance(value, torch.Tensor):
            dim = self._dims.get(name)
            if dim is None or value.shape[dim] == size:
                return value
            behind = [0, 0] * (value.dim() - 1 - dim) + [0, size - value.shape[dim]]
            fill = torch.finfo(value.dtype).min if value.is_floating_point() else 0
            return functional.pad(value, behind, value=fill)
        if type(value) in (tuple, list):
            return type(value)(self._pad(v, f"{name}[{n}]", size) for n, v in enumerate(value))
        if type(value) is dict:
            return {key: self._pad(v, f"{name}[{key!r}]", size) for key, v in value.items()}
        return value


def medians_by_bucket(samples: list[int], used: list[int | None]) -> dict[int, int]:
    """Median step in ns of each bucket; `used[i]` is the bucket of sample i."""
    of: defaultdict[int, list[int]] = defaultdict(list)
    for ns, bucket in zip(samples, used, strict=True):
        if bucket is not None:
            of[bucket].append(ns)
    return {bucket: statistics.median_low(samples_ns) for bucket, samples_ns in of.items()}
