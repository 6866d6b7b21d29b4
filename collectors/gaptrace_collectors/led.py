"""One recorder per rank, started by a launcher: the first leads, the others do what it says.

`torchrun ... -m gaptrace_collectors script.py` starts as many recorders as there are ranks. None of
them could start the launcher anew, but each can start its own rank's process again: for every mode
and repeat the leader names a command and a rendezvous port, all ranks run it, and the leader goes
on when all have ended. They talk through files in a folder beside the run folder.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
import uuid
from typing import TYPE_CHECKING, Any

from gaptrace_collectors.folder import read_json, write_json
from gaptrace_collectors.running import Job, run_to_end

if TYPE_CHECKING:
    from collections.abc import Callable

    from gaptrace_collectors.ranks import Rank

_POLL_S = 0.02
_MEETING_S = 120.0
_PARTING_S = 10.0
# A rank may still write its recording, or notice by itself that another has left.
_ABANDONED_S = 10.0
ABANDONED = 143
_END = "end.json"


class MeetingError(Exception):
    """The recorders of a launcher did not find each other."""


def meeting_folder(out: str, name: str) -> str:
    """Where the recorders of one run meet."""
    return os.path.join(out, f".{name}.ranks")


class Leader:
    """Runs each job on all ranks at once. Raises MeetingError where some do not come."""

    def __init__(self, folder: str, me: Rank) -> None:
        self._folder = folder
        self._me = me
        self._number = 0
        self._others = range(1, me.world_size)
        _meet_followers(folder, self._others)

    def run(self, job: Job, tick: Callable[[], None]) -> int:
        """Run the job on all ranks; the first exit code that is not 0, this rank's before others'.

        The rendezvous of one job is never that of another: old keys and closed sockets stay there.
        """
        self._number += 1
        env = job.env | _rendezvous()
        command = {"words": job.words, "env": env, "log": job.log, "limit_s": job.limit_s}
        write_json(self._path(f"job-{self._number}.json"), command)
        together = _Together(self._folder, self._number, self._me)
        codes = [together.run(Job(job.words, env, job.log, job.limit_s), tick)]
        for rank in self._others:
            while (code := together.code_of(rank)) is None:
                tick()
                time.sleep(_POLL_S)
            codes.append(code)
        # A rank that was ended because of another's failure is not how it went.
        real = [code for code in codes if code not in (0, ABANDONED)]
        return real[0] if real else 0

    def end(self, code: int) -> None:
        """Send the others home."""
        write_json(self._path(_END), {"code": code})
        until = time.monotonic() + _PARTING_S
        while time.monotonic() < until:
            if all(os.path.exists(self._path(f"left-{rank}.json")) for rank in self._others):
                break
            time.sleep(_POLL_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)


def follow(folder: str, me: Rank) -> int:
    """Run what the leader says until it ends; the exit code it ends with.

    Raises MeetingError where no leader comes.
    """
    _meet_leader(folder, me)
    number = 1
    while True:
        job = read_json(os.path.join(folder, f"job-{number}.json"))
        if job is not None:
            log = job["log"] and f"{job['log']}.{me.rank}"
            own = Job(job["words"], job["env"], log, job["limit_s"])
            _Together(folder, number, me).run(own, lambda: None)
            number += 1
            continue
        ended = read_json(os.path.join(folder, _END))
        if ended is not None:
            write_json(os.path.join(folder, f"left-{me.rank}.json"), {})
            return int(ended["code"])
        time.sleep(_POLL_S)


class _AbandonedError(Exception):
    """Another rank has failed, and this one did not end of itself."""


class _Together:
    """One job on all ranks: what one of them comes to ends the others, as a launcher would."""

    def __init__(self, folder: str, number: int, me: Rank) -> None:
        self._done = os.path.join(folder, f"done-{number}-{{}}.json")
        self._me = me
        self._failed_at: float | None = None

    def code_of(self, rank: int) -> int | None:
        """What the job came to on a rank, None while it runs there."""
        said = read_json(self._done.format(rank))
        return None if said is None else int(said["code"])

    def run(self, job: Job, tick: Callable[[], None]) -> int:
        """Run this rank's part and say how it ended."""

        def watching() -> None:
            tick()
            self._look_at_others()

        try:
            code = run_to_end(job, watching)
        except _AbandonedError:
            code = ABANDONED
        write_json(self._done.format(self._me.rank), {"code": code})
        return code

    def _look_at_others(self) -> None:
        now = time.monotonic()
        if self._failed_at is None:
            others = (rank for rank in range(self._me.world_size) if rank != self._me.rank)
            if any(self.code_of(rank) for rank in others):
                self._failed_at = now
        elif now - self._failed_at > _ABANDONED_S:
            raise _AbandonedError


def _meet_followers(folder: str, others: range) -> None:
    """Begin with an empty folder; answer each follower with the word that it came with.

    One that is early may write into the folder while it is emptied, which then stays.
    """
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    until = time.monotonic() + _MEETING_S
    missing = set(others)
    while missing:
        for rank in sorted(missing):
            said = read_json(os.path.join(folder, f"hello-{rank}.json"))
            if said is not None:
                write_json(os.path.join(folder, f"welcome-{rank}.json"), said)
                missing.discard(rank)
        if missing and time.monotonic() > until:
            ranks = ", ".join(map(str, sorted(missing)))
            raise MeetingError(f"no recorder of rank {ranks} came to {folder}")
        time.sleep(_POLL_S)


def _meet_leader(folder: str, me: Rank) -> None:
    """Say hello until it is answered: what lies in the folder may be of an older run."""
    word: dict[str, Any] = {"word": uuid.uuid4().hex}
    hello = os.path.join(folder, f"hello-{me.rank}.json")
    until = time.monotonic() + _MEETING_S
    while read_json(os.path.join(folder, f"welcome-{me.rank}.json")) != word:
        if time.monotonic() > until:
            raise MeetingError(f"the recorder of rank 0 did not come to {folder}")
        try:
            if read_json(hello) != word:
                write_json(hello, word)
        except OSError:
            pass  # not made yet, or being emptied
        time.sleep(_POLL_S)


def _rendezvous() -> dict[str, str]:
    """A port of its own for each job, where the launcher gave one for `torch.distributed`."""
    if "MASTER_PORT" not in os.environ:
        return {}
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    # The agent's own store is kept for the whole launch; rank 0 of each job makes one instead.
    return {"MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "False"}
