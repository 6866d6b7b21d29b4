"""Whose events these are: a correlation id links only within one recording of one process.

Files that hold several recordings (ranks merged by a script, two runs written one after the other)
use the same ids twice. Each recording gets a rank label of its own here, so that links, devices
and steps never mix two of them. Where that cannot be done the file says so, and whoever analyses
it withholds what rests on links.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import TYPE_CHECKING

import numpy as np

from gaptrace.knowledge.runtime_calls import is_launch_family
from gaptrace.trace import Cat, Lane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace.reading.assemble import Merged
    from gaptrace.trace import Codes, Ints

# Fewer ids than this on two calls of one process are strays: the first call in the file has them.
FEWEST_RESTARTED = 3
MOST_RECORDINGS = 64
# Share of a device's ops that must start after the calls of the process it is given to.
CAUSAL_SHARE = 0.9
MOST_PERMUTED = 6
# Damage that two writers do to each other's records.
TORN = ("dropped_events", "bad_quotes", "not_an_event", "missing_comma", "given_up")
_LATEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class _Calls:
    """Launch calls with an id: rows, and process codes."""

    row: Ints
    process: Ints


def separate(merged: Merged) -> dict[str, int]:
    """Give each process or recording whose ids collide a rank of its own; what was done, counted.

    Keys: `merged_processes`, `joined_recordings` (both separated), `ids_collide` (not separable),
    `two_writers` (two processes tore each other's records).
    """
    found: dict[str, int] = {}
    process = _Processes(merged)
    calls = _launch_calls(merged, process)
    if calls.row.size == 0:
        return found
    if _torn_by_two(merged, calls):
        found["two_writers"] = int(np.unique(calls.process).size)
        return found
    hosts = [process.keys[code][0] for code in np.unique(calls.process).tolist()]
    several = sorted({rank for rank in hosts if hosts.count(rank) > 1})
    if not several and not _ids_restart(merged, calls):
        return found
    label = np.array([lane.rank for lane in merged.lanes], object)[merged.lane]
    for rank in several:
        _separate_processes(merged, process, calls, rank, label, found)
    _separate_recordings(merged, calls, label, found)
    if found.keys() & {"merged_processes", "joined_recordings"}:
        _relabel(merged, label)
    return found


class _Processes:
    """Codes for (rank, pid) of each lane."""

    def __init__(self, merged: Merged) -> None:
        codes: dict[tuple[str, str], int] = {}
        self.of_lane = np.array(
            [codes.setdefault((lane.rank, lane.pid), len(codes)) for lane in merged.lanes],
            np.int64,
        )
        self.keys = list(codes)


def _launch_calls(merged: Merged, process: _Processes) -> _Calls:
    families = np.zeros(len(merged.names), np.bool_)
    runtime = np.flatnonzero((merged.cat == Cat.RUNTIME) & (merged.corr != 0))
    for code in np.unique(merged.name[runtime]):
        families[code] = is_launch_family(merged.names[int(code)])
    rows = runtime[families[merged.name[runtime]]]
    return _Calls(rows, process.of_lane[merged.lane[rows]])


def _torn_by_two(merged: Merged, calls: _Calls) -> bool:
    """Whether several processes take turns in the file and records were torn where they do."""
    if np.unique(calls.process).size < 2:
        return False
    torn = sum(merged.tallies[name].count for name in TORN if name in merged.tallies)
    order = np.argsort(calls.row)
    turns = int((np.diff(calls.process[order]) != 0).sum())
    # Ranks joined one after the other change hands once a rank; ranks sorted by time, all along.
    return torn >= 2 and turns >= 2 and 3 * torn >= turns


# Processes -----------------------------------------------------------------------------------


def _separate_processes(
    merged: Merged,
    process: _Processes,
    calls: _Calls,
    rank: str,
    label: np.ndarray,
    found: dict[str, int],
) -> None:
    own = np.array([key[0] == rank for key in process.keys])
    mine = own[calls.process]
    row, host = calls.row[mine], calls.process[mine]
    hosts = np.unique(host)
    gpu = merged.gpu
    group = process.of_lane[merged.lane[gpu.rows]]
    ops = np.flatnonzero(own[group])
    if hosts.size < 2 or ops.size == 0:
        return
    device, group = gpu.device[ops], group[ops]
    pairs = np.unique(np.stack((device.astype(np.int64), group), axis=1), axis=0)
    shared_device = np.unique(pairs[:, 0]).size < pairs.shape[0]
    # Kineto draws a process's launches under its own pid: ids on two of them are two recordings.
    if not (_shared_ids(merged, row, host) or shared_device):
        return
    owner = _owners(merged, row, host, hosts, gpu.rows[ops], pairs, device, group)
    if owner is None:
        found["ids_collide"] = found.get("ids_collide", 0) + int(ops.size)
        return
    name = {int(code): f"[process {process.keys[int(code)][1]}]" for code in hosts}
    if rank:
        name = {code: f"[{rank[1:-1]} {text[1:-1]}]" for code, text in name.items()}
    for code, text in name.items():
        label[process.of_lane[merged.lane] == code] = text
    for (one, where), code in zip(pairs.tolist(), owner, strict=True):
        label[gpu.rows[ops[(device == one) & (group == where)]]] = name[code]
    _label_lanes(merged, label, set(name.values()))
    found["merged_processes"] = found.get("merged_processes", 0) + len(name)


def _shared_ids(merged: Merged, row: Ints, host: Ints) -> bool:
    """Whether launch calls of two processes carry one id, more often than by accident."""
    order = np.lexsort((host, merged.corr[row]))
    corr, host = merged.corr[row][order], host[order]
    both = (corr[1:] == corr[:-1]) & (host[1:] != host[:-1])
    return bool(both.any())


def _owners(
    merged: Merged,
    row: Ints,
    host: Ints,
    hosts: Ints,
    op_row: Ints,
    pairs: Ints,
    device: Codes,
    group: Ints,
) -> list[int] | None:
    """The host process of each (device, GPU pid), or None where that is anybody's guess.

    Ranks that stand one after the other in the file own what follows their calls. Otherwise a
    device belongs to the process whose calls its ops follow soonest and never precede.
    """
    members = [op_row[(device == one) & (group == where)] for one, where in pairs.tolist()]
    by_place = _by_place(row, host, hosts, members)
    cost = np.full((len(members), hosts.size), np.inf)
    for column, code in enumerate(hosts.tolist()):
        own = row[host == code]
        own = own[np.argsort(merged.corr[own], kind="stable")]
        ids = merged.corr[own]
        for line, rows in enumerate(members):
            at = np.minimum(np.searchsorted(ids, merged.corr[rows]), own.size - 1)
            linked = ids[at] == merged.corr[rows]
            if not linked.any():
                continue
            delay = merged.start[rows[linked]] - merged.start[own[at[linked]]]
            if (delay >= 0).sum() < CAUSAL_SHARE * rows.size:
                continue
            cost[line, column] = float(np.median(delay))
    if by_place is not None and np.isfinite(cost[np.arange(len(members)), by_place]).all():
        return [int(hosts[column]) for column in by_place]
    chosen = _cheapest(cost)
    return None if chosen is None else [int(hosts[column]) for column in chosen]


def _by_place(row: Ints, host: Ints, hosts: Ints, members: list[Ints]) -> list[int] | None:
    first = np.array([row[host == code].min() for code in hosts])
    last = np.array([row[host == code].max() for code in hosts])
    order = np.argsort(first)
    if (last[order][:-1] > first[order][1:]).any():
        return None
    starts = np.append(first[order], _LATEST)
    result = []
    for rows in members:
        index = int(np.searchsorted(starts, rows.min(), side="right")) - 1
        if index < 0 or rows.max() >= starts[index + 1]:
            return None
        result.append(int(order[index]))
    return result


def _cheapest(cost: np.ndarray) -> list[int] | None:
    """For each line the column, every column taken; None where two ways are as good."""
    lines, columns = cost.shape
    if lines == columns <= MOST_PERMUTED:
        ways = sorted(
            (float(cost[range(lines), way].sum()), way) for way in permutations(range(columns))
        )
        if not np.isfinite(ways[0][0]) or (len(ways) > 1 and ways[1][0] <= ways[0][0]):
            return None
        return list(ways[0][1])
    if not np.isfinite(cost.min(axis=1)).all():
        return None
    chosen = np.argmin(cost, axis=1)
    return [int(column) for column in chosen] if np.unique(chosen).size == columns else None


# Recordings ----------------------------------------------------------------------------------


def _separate_recordings(
    merged: Merged,
    calls: _Calls,
    label: np.ndarray,
    found: dict[str, int],
) -> None:
    for code in np.unique(calls.process).tolist():
        row = calls.row[calls.process == code]
        texts = {str(text) for text in np.unique(label[row].astype(str))}
        cuts = _restarts(merged, row)
        if not cuts or len(texts) != 1:
            continue
        rank = texts.pop()
        rows = np.flatnonzero(label == rank)
        part = _part_of_rows(merged, rows, cuts)
        if part is None:
            found["ids_collide"] = found.get("ids_collide", 0) + int(row.size)
            continue
        base = f"{rank[1:-1]} " if rank else ""
        for number in range(int(part.max()) + 1):
            label[rows[part == number]] = f"[{base}recording {number + 1}]"
        found["joined_recordings"] = found.get("joined_recordings", 0) + len(cuts) + 1


def _ids_restart(merged: Merged, calls: _Calls) -> bool:
    """Whether enough ids occur on two launch calls of one process for a closer look."""
    corr = merged.corr[calls.row]
    order = np.lexsort((corr, calls.process))
    corr, process = corr[order], calls.process[order]
    same = (corr[1:] == corr[:-1]) & (process[1:] == process[:-1])
    return int(same.sum()) >= FEWEST_RESTARTED


def _restarts(merged: Merged, row: Ints) -> list[tuple[Ints, Ints]]:
    """The calls before and after each restart of the ids; empty where ids never start anew."""
    for key in (merged.start[row], row):
        order = np.lexsort((row, key))
        ordered = row[order]
        ids = merged.corr[ordered]
        bounds = _bounds(merged, ordered, ids)
        if bounds:
            edges = [0, *bounds, ids.size]
            pieces = [ordered[a:b] for a, b in pairwise(edges)]
            return list(pairwise(pieces))
    return []


def _bounds(merged: Merged, ordered: Ints, ids: Ints) -> list[int]:
    """Where in a sequence of calls the ids start anew."""
    by_id = np.lexsort((np.arange(ids.size), ids))
    before = np.full(ids.size, -1, np.int64)
    again = ids[by_id][1:] == ids[by_id][:-1]
    before[by_id[1:][again]] = by_id[:-1][again]
    # A driver call inside the runtime call that makes it may carry the same id.
    start, end = merged.start[ordered], merged.start[ordered] + merged.dur[ordered]
    name, earlier = merged.name[ordered], np.maximum(before, 0)
    nested = (before >= 0) & (start < end[earlier]) & (name != name[earlier])
    before[nested] = -1
    if (before >= 0).sum() < FEWEST_RESTARTED:
        return []
    bounds: list[int] = []
    begin = 0
    while len(bounds) < MOST_RECORDINGS:
        repeats = np.flatnonzero(before[begin:] >= begin)
        if repeats.size == 0:
            break
        stop = begin + int(repeats[0])
        first = int(before[stop]) + 1
        drop = ids[first - 1 : stop] - ids[first : stop + 1]
        begin = first + int(np.argmax(drop))
        bounds.append(begin)
    if len(bounds) >= MOST_RECORDINGS:
        return []
    for a, b in zip([0, *bounds], [*bounds, ids.size], strict=True):
        # Ids grow along a recording, up to what threads do side by side.
        if b - a < 2 or (np.diff(ids[a:b]) > 0).mean() < 0.8:
            return []
    return bounds


def _part_of_rows(merged: Merged, rows: Ints, cuts: list[tuple[Ints, Ints]]) -> Ints | None:
    """Which recording each row belongs to: by time, or by place in the file where times overlap."""
    start, end = merged.start[rows], merged.start[rows] + merged.dur[rows]
    in_time = all(merged.start[before].max() < merged.start[after].min() for before, after in cuts)
    in_file = all(before.max() < after.min() for before, after in cuts)
    part = np.zeros(rows.size, np.int64)
    gpu = merged.cat[rows] <= Cat.MEMSET
    if in_time:
        for before, after in cuts:
            first, last = int(merged.start[after].min()), int(merged.start[before].max())
            # What surrounds the first call began with it, unless it surrounds the last one too.
            around = ~gpu & (start <= first) & (end > first) & (start > last)
            part[start >= min(first, int(start[around].min(initial=first)))] += 1
        return _with_their_calls(merged, rows, gpu, part, cuts)
    if not in_file:
        return None
    for before, after in cuts:
        between = rows[gpu & (rows > before.max()) & (rows < after.min())]
        low = int(between.max()) if between.size else int(before.max())
        # Behind the last GPU op time falls back most where the next recording begins.
        falls = -np.diff(merged.start[low : int(after.min()) + 1])
        part[rows > low + int(np.argmax(falls))] += 1
    return part


def _with_their_calls(
    merged: Merged,
    rows: Ints,
    gpu: np.ndarray,
    part: Ints,
    cuts: list[tuple[Ints, Ints]],
) -> Ints:
    """GPU ops that ran past the restart go with the latest call of their id before them."""
    pieces = [cuts[0][0], *(after for _, after in cuts)]
    for number, piece in enumerate(pieces[:-1]):
        following = np.flatnonzero(gpu & (part == number + 1))
        corr, start = merged.corr[rows[following]], merged.start[rows[following]]
        late = np.isin(corr, merged.corr[piece])
        nxt = pieces[number + 1]
        order = np.argsort(merged.corr[nxt], kind="stable")
        ids = merged.corr[nxt][order]
        at = np.minimum(np.searchsorted(ids, corr), ids.size - 1)
        own = (ids[at] == corr) & (merged.start[nxt][order][at] <= start)
        part[following[late & ~own]] = number
    return part


# Labels --------------------------------------------------------------------------------------


def _label_lanes(merged: Merged, label: np.ndarray, names: set[str]) -> None:
    """Events on a GPU's other lanes go with its ops."""
    known = np.zeros(label.size, np.bool_)
    for name in names:
        known |= label == name
    for lane in np.unique(merged.lane[merged.gpu.rows]):
        here = merged.lane == lane
        texts = {str(text) for text in label[here & known]}
        if len(texts) == 1:
            label[here] = texts.pop()


def _relabel(merged: Merged, label: np.ndarray) -> None:
    """New lanes and devices, one of each for every label."""
    lanes: dict[Lane, int] = {}
    codes = np.zeros(merged.lane.size, np.int32)
    for old, text in _pairs(merged.lane, label):
        lane = merged.lanes[old]
        code = lanes.setdefault(Lane(text, lane.pid, lane.tid), len(lanes))
        codes[(merged.lane == old) & (label == text)] = code
    devices: dict[str, int] = {}
    own = label[merged.gpu.rows]
    device = np.zeros(merged.gpu.rows.size, np.int32)
    for old, text in _pairs(merged.gpu.device, own):
        bare = merged.devices[old].rsplit("] ", 1)[-1]
        name = f"{text} {bare}" if text else merged.devices[old]
        device[(merged.gpu.device == old) & (own == text)] = devices.setdefault(name, len(devices))
    merged.lane, merged.lanes = codes, tuple(lanes)
    merged.gpu.device[:] = device
    merged.devices = tuple(devices)


def _pairs(codes: Ints | Codes, label: np.ndarray) -> Iterator[tuple[int, str]]:
    """The different (code, label) pairs, in order of first appearance."""
    texts, which = np.unique(label.astype(str), return_inverse=True)
    key = codes.astype(np.int64) * texts.size + which
    _, first = np.unique(key, return_index=True)
    for index in np.sort(first).tolist():
        yield int(codes[index]), str(label[index])
