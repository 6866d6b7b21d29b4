"""What was wrong with a file and what was done about it, one sentence for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaptrace.trace import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping


# {n}: how often; {at}: byte position of the first in the JSON text.
_TEXTS: Mapping[str, str] = {
    "truncated": "the file is cut off at byte {at}: every complete event before that was kept",
    "truncated_gzip": "the gzip data is cut off: every complete event before that was kept",
    "corrupt_gzip": "the gzip data is damaged: what could be inflated was kept",
    "trailing_comma": "{n} stray comma(s) were ignored, the first at byte {at}",
    "missing_comma": "{n} comma(s) between events are missing, the first at byte {at}",
    "bad_utf8": "{n} event(s) or parts of the file with bad UTF-8 were read with a replacement "
    "character, the first at byte {at}",
    "control_characters": "{n} event(s) with raw control characters in a text were read all the "
    "same, the first at byte {at}",
    "bad_backslash": "{n} unescaped backslash(es) were escaped, the first at byte {at}",
    "bad_quotes": "{n} unescaped quote(s) were escaped, the first at byte {at}",
    "log_lines": "{n} piece(s) of text that is not JSON were skipped, the first at byte {at}",
    "nan_values": "{n} value(s) are NaN or Infinity, which JSON does not know, the first at byte "
    "{at}",
    "dropped_events": "{n} broken event(s) could not be repaired and were left out, the first at "
    "byte {at}",
    "given_up": "from byte {at} on the file is too damaged to read: the rest was left out",
    "not_an_event": "{n} element(s) of the event list are no events, the first at byte {at}",
    "unreadable_time": "{n} event(s) without a readable time were left out, the first at byte {at}",
    "unreadable_value": "{n} id(s) or number(s) could not be read as integers and count as "
    "absent, the first at byte {at}",
    "negative_duration": "{n} event(s) with a negative duration were given the duration 0, the "
    "first at byte {at}",
    "unfinished": "{n} event(s) without a readable duration (unfinished when the recording "
    "stopped) were given the duration 0, the first at byte {at}",
    "begin_end_pairs": "{n} event(s) are begin/end pairs of another writer; only complete events "
    "are analysed, so these were ignored",
    "broken_metadata": "the metadata around the events is damaged; what could be read was kept",
    "text_after_end": "text after the end of the event list was ignored, from byte {at} on",
    "repeated_key": "the file has more than one traceEvents list; the last one was read, as JSON "
    "readers do",
    "written_twice": "{n} record(s) stood in the file twice and were read once",
    "merged_processes": "the ids of {n} processes that one file holds collide: each process is "
    "analysed by itself",
    "joined_recordings": "ids start anew within the file: its {n} recordings are analysed one by "
    "one",
    "ids_collide": "launch calls of several processes or recordings carry the same ids and cannot "
    "be told apart ({n} events): nothing that rests on links is right; give each process a file "
    "of its own",
    "two_writers": "{n} processes wrote into this file at the same time and tore each other's "
    "records (interleaved): no step can be trusted; give each process a file of its own",
    "utf16": "the file is UTF-16 text and was converted",
}


def problems_of(found: Mapping[str, tuple[int, int]]) -> tuple[Problem, ...]:
    """The problems, by how often and where first, in the order in which this module lists them."""
    return tuple(
        Problem(id=name, text=text.format(n=f"{count:,}", at=f"{offset:,}"), count=count)
        for name, text in _TEXTS.items()
        for count, offset in [found.get(name, (0, 0))]
        if count
    )
