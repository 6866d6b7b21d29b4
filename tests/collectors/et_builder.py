"""Execution traces written by hand: tensors by shape, ops by schema, ids given out in order."""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

ITEMSIZES = {"c10::BFloat16": 2, "float": 4, "long int": 8, "double": 8, "bool": 1, "int": 4}


@dataclass(frozen=True)
class T:
    """A recorded tensor. A view names the storage that it shares."""

    id: int
    storage: int
    shape: tuple[int, ...]
    dtype: str = "c10::BFloat16"
    offset: int = 0
    strides: tuple[int, ...] = ()
    device: str = "cuda:0"

    @property
    def value(self) -> list[Any]:
        numel = 1
        for n in self.shape:
            numel *= n
        return [self.id, self.storage, self.offset, numel, ITEMSIZES[self.dtype], self.device]


@dataclass
class Recording:
    """Builds one execution trace; `rf_id` counts up from 1 in call order."""

    ids: Any = field(default_factory=lambda: itertools.count(100))
    nodes: list[dict[str, Any]] = field(default_factory=list)
    parent: int = 2
    rf: Any = field(default_factory=lambda: itertools.count(1))

    def tensor(self, *shape: int, dtype: str = "c10::BFloat16", device: str = "cuda:0") -> T:
        """A new tensor with memory of its own."""
        return T(next(self.ids), next(self.ids), shape, dtype, 0, contiguous(shape), device)

    def number(self, dtype: str = "double") -> T:
        """A Python number in tensor arithmetic."""
        return self.tensor(dtype=dtype, device="cpu")

    def view(self, of: T, *shape: int, offset: int = 0, strides: tuple[int, ...] = ()) -> T:
        """A tensor on the memory of `of`."""
        return T(
            next(self.ids),
            of.storage,
            shape,
            of.dtype,
            of.offset + offset,
            strides or contiguous(shape),
            of.device,
        )

    def span(self, name: str) -> Recording:
        """A recorder for what happens inside a span of that name."""
        node = self._node(name, "", [], [])
        return Recording(self.ids, self.nodes, node, self.rf)

    def op(self, schema: str, inputs: list[Any], *outputs: Any) -> Any:
        """Records a call and returns its outputs (the single one alone)."""
        self._node(schema.split("(")[0].split(".")[0], schema, inputs, list(outputs))
        return outputs[0] if len(outputs) == 1 else outputs

    def inside(self, schema: str, inputs: list[Any], *outputs: Any) -> Recording:
        """Records a call and returns a recorder for what it calls."""
        name = schema.split("(")[0].split(".")[0]
        return Recording(
            self.ids, self.nodes, self._node(name, schema, inputs, list(outputs)), self.rf
        )

    def document(self) -> dict[str, Any]:
        """The JSON document that the observer would have written."""
        frame = "[pytorch|profiler|execution_trace|"
        return {
            "schema": "1.1.1-chakra.0.0.4",
            "pid": 1,
            "nodes": [
                node(2, frame + "thread]", 1, 0, "", [], []),
                *self.nodes,
                node(1, frame + "process]", 1, 0, "", [], []),
            ],
        }

    def write(self, path: Path) -> Path:
        """Writes the document, gzipped where the name says so."""
        text = json.dumps(self.document()).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path

    def _node(self, name: str, schema: str, inputs: list[Any], outputs: list[Any]) -> int:
        key = next(self.ids)
        self.nodes.append(node(key, name, self.parent, next(self.rf), schema, inputs, outputs))
        return key


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def node(
    key: int, name: str, parent: int, rf: int, schema: str, inputs: list[Any], outputs: list[Any]
) -> dict[str, Any]:
    attrs = [("rf_id", rf), ("tid", 1), ("op_schema", schema), ("kernel_backend", "")]
    return {
        "id": key,
        "name": name,
        "ctrl_deps": parent,
        "inputs": columns(inputs),
        "outputs": columns(outputs),
        "attrs": [{"name": n, "type": "", "value": v} for n, v in attrs],
    }


def columns(values: list[Any]) -> dict[str, Any]:
    rows = [row(value) for value in values]
    names = ("values", "shapes", "types", "strides")
    return {name: [r[i] for r in rows] for i, name in enumerate(names)}


def row(value: Any) -> tuple[Any, Any, str, Any]:
    if isinstance(value, T):
        return value.value, list(value.shape), f"Tensor({value.dtype})", list(value.strides)
    if isinstance(value, list):
        rows = [row(item) for item in value]
        kinds = ",".join(r[2] for r in rows)
        return (
            [r[0] for r in rows],
            [r[1] for r in rows],
            f"GenericList[{kinds}]",
            [r[3] for r in rows],
        )
    if value is None:
        return "<None>", [], "None", []
    kinds_of = {bool: "Bool", int: "Int", float: "Double", str: "Device"}
    return value, [], kinds_of[type(value)], []
