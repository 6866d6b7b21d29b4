"""Recordings of decode loops with round numbers, to be bent into every shape that public ones have.

A token is a head, layers and a tail: `embedding`, per layer five ops, then the product with the
vocabulary, `argmax` and the copy of the chosen ids to the host. Every op takes `SLOT` on the host,
launches once, and its kernel starts `LAG` after the launch. All times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.builders import Event, kernel, launch, mark, memcpy, op, runtime

SLOT, LAG, BUSY = 20_000, 4_000, 5_000
LAYER = ("norm", "qkv", "attention", "out", "mlp")
OPS = {
    "embedding": "aten::embedding",
    "norm": "aten::rms_norm",
    "qkv": "aten::linear",
    "attention": "aten::scaled_dot_product_attention",
    "out": "aten::linear",
    "mlp": "aten::linear",
    "lm_head": "aten::linear",
    "argmax": "aten::argmax",
}


@dataclass
class Recorder:
    """Writes events one after the other on one thread and one device."""

    at: int = 100_000
    corr: int = 1
    tid: int = 1
    pid: int | str = 100
    gpu_pid: int | str = 0
    device: int = 0
    busy: int = BUSY
    events: list[Event] = field(default_factory=list)

    def call(self, name: str, *, op_name: str | None = None, **args: Any) -> None:
        """One op that launches one kernel."""
        dims = args.pop("dims", None)
        host: dict[str, Any] = {"tid": self.tid, "pid": self.pid}
        if op_name is not None:
            self.events.append(op(op_name, at=self.at, dur=SLOT - 2_000, dims=dims, **host))
        self.events.append(launch(at=self.at + 8_000, dur=4_000, corr=self.corr, **host))
        made = kernel(
            name, at=self.at + 8_000 + LAG, dur=self.busy, corr=self.corr, device=self.device
        )
        self.events.append({**made, "pid": self.gpu_pid})
        self.corr += 1
        self.at += SLOT

    def to_host(self, nbytes: int = 8) -> None:
        """The copy that ends a token, and the wait for it."""
        host: dict[str, Any] = {"tid": self.tid, "pid": self.pid}
        self.events += [
            op("aten::item", at=self.at, dur=18_000, **host),
            launch("cudaMemcpyAsync", at=self.at + 4_000, dur=4_000, corr=self.corr, **host),
            {
                **memcpy(
                    "DtoH (Device -> Pageable)",
                    at=self.at + 9_000,
                    dur=2_000,
                    corr=self.corr,
                    device=self.device,
                    nbytes=nbytes,
                ),
                "pid": self.gpu_pid,
            },
            runtime("cudaStreamSynchronize", at=self.at + 9_000, dur=4_000, **host),
        ]
        self.corr += 1
        self.at += SLOT

    def from_host(self, nbytes: int) -> None:
        """Inputs that the host sends to the device."""
        host: dict[str, Any] = {"tid": self.tid, "pid": self.pid}
        self.events += [
            launch("cudaMemcpyAsync", at=self.at, dur=4_000, corr=self.corr, **host),
            {
                **memcpy(at=self.at + 5_000, dur=1_000, corr=self.corr, nbytes=nbytes),
                "pid": self.gpu_pid,
            },
        ]
        self.corr += 1
        self.at += SLOT

    def layer(self, kernels: Sequence[str] = ()) -> None:
        """One layer; `kernels` in place of the names of its own."""
        for index, part in enumerate(LAYER):
            name = kernels[index] if kernels else f"{part}_kernel"
            self.call(name, op_name=OPS[part])

    def token(self, layers: int = 4, kernels: Sequence[str] = ()) -> None:
        """One token."""
        self.call("embedding_kernel", op_name=OPS["embedding"])
        for _ in range(layers):
            self.layer(kernels)
        self.call("lm_head_kernel", op_name=OPS["lm_head"])
        self.call("argmax_kernel", op_name=OPS["argmax"])
        self.to_host()

    def mark(self, name: str, since: int) -> None:
        """A mark around what was written since that instant."""
        host: dict[str, Any] = {"tid": self.tid, "pid": self.pid}
        self.events.append(mark(name, at=since, dur=self.at - since - 1, **host))

    def pause(self, ns: int) -> None:
        """Nothing for so long."""
        self.at += ns


def kernels_per_token(layers: int = 4) -> int:
    """Kernels of a token."""
    return 3 + len(LAYER) * layers


def token_ns(layers: int = 4) -> int:
    """Host time of a token, without a pause behind it."""
    return (kernels_per_token(layers) + 1) * SLOT


def every_second(events: Iterable[Event]) -> list[Event]:
    """The events, GPU records twice."""
    return [
        copy
        for e in events
        for copy in ([e, e] if "kernel" in e["cat"] or "mem" in e["cat"] else [e])
    ]
