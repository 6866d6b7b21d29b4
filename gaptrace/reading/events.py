"""One event as the decoder sees it: the few fields that become columns, in Kineto's order.

Fields are typed `object` on purpose: vendors disagree about types (strings where NVIDIA writes
integers, nulls, floats), and a value of another type is sorted out column by column instead of
failing the whole slice.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

Raw = msgspec.Raw
NOTHING = Raw()


class Args(msgspec.Struct, gc=False, frozen=True):
    """The `args` that become columns."""

    ext: object = msgspec.field(default=0, name="External id")
    record_function_id: object = msgspec.field(default=0, name="Record function id")
    concrete: Raw = msgspec.field(default=NOTHING, name="Concrete Inputs")
    types: Raw = msgspec.field(default=NOTHING, name="Input type")
    dims: Raw = msgspec.field(default=NOTHING, name="Input Dims")
    python_parent: object = msgspec.field(default=0, name="Python parent id")
    python_id: object = msgspec.field(default=0, name="Python id")
    device: object = None
    stream: object = -1
    corr: object = msgspec.field(default=0, name="correlation")
    graph_id: object = msgspec.field(default=0, name="graph id")
    graph_node: object = msgspec.field(default=0, name="graph node id")
    bytes: object = 0
    old_ext: object = msgspec.field(default=0, name="external id")
    old_dims: Raw = msgspec.field(default=NOTHING, name="Input dims")


NO_ARGS = Args()


class Complete(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """A complete event; its times are numbers."""

    cat: object = None
    name: object = None
    pid: object = None
    tid: object = None
    ts: object = None
    dur: object = None
    args: Args | None = NO_ARGS


class ExactComplete(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """A complete event whose times stay text, for clocks that a double cannot hold."""

    cat: object = None
    name: object = None
    pid: object = None
    tid: object = None
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    args: Args | None = NO_ARGS


class Metadata(msgspec.Struct, gc=False, tag_field="ph", tag="M"):
    """A metadata event: names of processes and threads."""

    name: object = None
    pid: object = None
    tid: object = None
    args: object = None


AnyComplete: TypeAlias = Complete | ExactComplete

# Phases of the trace event format that carry nothing for us; each is its own empty type, so that
# the decoder skips the content and a count of types is a count of phases.
_OTHER_PHASES = "BEiIsftbneSTpFPCNODRcvV()"
_PHASE_NAMES = {"(": "open", ")": "close"}
_others: dict[type, str] = {
    msgspec.defstruct(
        f"Phase_{_PHASE_NAMES.get(ph, ph)}_{ord(ph)}", [], tag_field="ph", tag=ph, gc=False
    ): ph
    for ph in _OTHER_PHASES
}
PHASE_OF: Mapping[type, str] = {Metadata: "M", **_others}


def _decoder(complete: type, *, many: bool) -> Any:
    union: Any = complete | Metadata
    for other in _others:
        union = union | other
    return msgspec.json.Decoder(list[union] if many else union)


SLICE_DECODER = _decoder(Complete, many=True)
EXACT_SLICE_DECODER = _decoder(ExactComplete, many=True)
EXACT_EVENT_DECODER = _decoder(ExactComplete, many=False)

DECODE_ERRORS = (ValueError, RecursionError)


class NumberText(str):
    """The text of a JSON number with a fraction or exponent, kept because a double may not do."""

    __slots__ = ()


def _raw(value: object) -> Raw:
    return NOTHING if value is None else Raw(json.dumps(value).encode())


def from_mapping(event: Mapping[str, Any]) -> Complete | Metadata | str:
    """A decoded event as a struct, or its phase where nothing of it is kept."""
    phase = event.get("ph")
    if phase == "M":
        return Metadata(event.get("name"), event.get("pid"), event.get("tid"), event.get("args"))
    if phase != "X":
        return phase if isinstance(phase, str) else ""
    args = event.get("args")
    kept = NO_ARGS
    if isinstance(args, dict):
        kept = Args(
            ext=args.get("External id", 0),
            record_function_id=args.get("Record function id", 0),
            concrete=_raw(args.get("Concrete Inputs")),
            types=_raw(args.get("Input type")),
            dims=_raw(args.get("Input Dims")),
            python_parent=args.get("Python parent id", 0),
            python_id=args.get("Python id", 0),
            device=args.get("device"),
            stream=args.get("stream", -1),
            corr=args.get("correlation", 0),
            graph_id=args.get("graph id", 0),
            graph_node=args.get("graph node id", 0),
            bytes=args.get("bytes", 0),
            old_ext=args.get("external id", 0),
            old_dims=_raw(args.get("Input dims")),
        )
    return Complete(
        cat=event.get("cat"),
        name=event.get("name"),
        pid=event.get("pid"),
        tid=event.get("tid"),
        ts=event.get("ts"),
        dur=event.get("dur"),
        args=kept,
    )
