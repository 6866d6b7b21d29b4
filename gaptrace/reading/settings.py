"""How the loader cuts its work up: sizes and limits, in one place so that tests can shrink them."""

from __future__ import annotations

from dataclasses import dataclass

MB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """Sizes in bytes of JSON text.

    slice: what one decoder call gets; about 1 MB keeps its objects in cache. block: what is read,
    or handed to a worker, at a time. parallel_from: smallest text worth starting workers for.
    per_worker: text that makes one more worker worthwhile. most_workers: with more of them putting
    the results together takes the time. longest_event: what is longer is taken for damage; it
    bounds memory. head: how far the list of events is searched for. lists: how many places that
    look like it are tried. tail: how much after the list of events is kept as metadata. failures,
    wasted: how many broken events, and how many bytes read in vain, are put up with in one file.
    """

    slice: int = MB
    block: int = 8 * MB
    parallel_from: int = 48_000_000
    per_worker: int = 24_000_000
    longest_event: int = 64 * MB
    most_workers: int = 8
    head: int = 64 * MB
    lists: int = 8
    tail: int = 64 * MB
    failures: int = 20_000
    wasted: int = 256 * MB
