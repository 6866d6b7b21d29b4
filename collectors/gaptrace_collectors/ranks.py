"""One process of several that record the same script: which it is, and how they agree.

Ranks agree through small files in a folder that all of them see, so that neither the script's
process groups nor its ports are touched. They run the same script, so their steps are in lockstep:
what one rank decides by its own clock or compiler is decided by all at the entry of the same step.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gaptrace_collectors.folder import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Rank, number of ranks, rank within the machine: as launchers name them.
_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    # Not SLURM_NTASKS: a batch script has that, too, and is one process.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)
_POLL_S = 0.002
_WATCH_S = 0.25
_GRACE_S = 5.0
FOLDER = "rank-{}"


@dataclass(frozen=True)
class Rank:
    """Which process of how many; as it stands in run.json."""

    rank: int
    world_size: int
    local_rank: int | None = None

    def to_json(self) -> dict[str, int | None]:
        """The rank as it stands in run.json."""
        return asdict(self)


def rank_of(environment: Mapping[str, str]) -> Rank | None:
    """The rank that a launcher gave this process; None where there was none."""
    found = [
        Rank(rank, size, _whole(environment.get(local)))
        for name, count, local in _VARIABLES
        if (rank := _whole(environment.get(name))) is not None
        and (size := _whole(environment.get(count))) is not None
        and rank < size
    ]
    several = (rank for rank in found if rank.world_size > 1)
    return next(several, found[0] if found else None)


def rank_variables(anew: bool) -> tuple[str, ...]:  # noqa: FBT001
    """Variables that a new launch sets anew, and must not inherit; none where there is none."""
    return tuple(dict.fromkeys(name for each in _VARIABLES for name in each)) if anew else ()


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


class RanksError(Exception):
    """The ranks did not come to an agreement; the message says which one is missing where."""


class Ranks:
    """The ranks of one cell. Alone, everything is agreed at once.

    `patience_s`: how long one waits for the others before it gives up.
    """

    def __init__(self, me: Rank | None = None, folder: str = "", patience_s: float = 600.0) -> None:
        self.me = me
        self._folder = folder
        self._patience_s = patience_s
        self._agreed = 0
        self._failed: dict[str, Any] | None = None
        self._over = threading.Event()
        self._noticed = threading.Event()

    @property
    def several(self) -> bool:
        """Whether there are others."""
        return self.me is not None and self.me.world_size > 1

    @property
    def number(self) -> int:
        """This rank's number, 0 where it is alone."""
        return self.me.rank if self.me else 0

    @property
    def folder(self) -> str:
        """Name of this rank's folder within a repeat, empty where it is alone."""
        return FOLDER.format(self.number) if self.several else ""

    # --- agreeing ------------------------------------------------------------------------------

    def gathered(self, what: str, value: Any) -> list[Any]:
        """The values that all ranks give here, by rank. Raises RanksError."""
        if not self.several:
            return [value]
        assert self.me is not None
        self._agreed += 1
        name = f"{self._agreed}-{{}}.json"
        self._write(name.format(self.me.rank), {"what": what, "value": value})
        until = time.monotonic() + self._patience_s
        return [self._value(rank, name, what, until) for rank in range(self.me.world_size)]

    def any(self, what: str, mine: bool) -> bool:  # noqa: FBT001 (a value, not a switch)
        """Whether it holds on any rank."""
        return any(self.gathered(what, mine))

    def _value(self, rank: int, name: str, what: str, until: float) -> Any:
        path = os.path.join(self._folder, name.format(rank))
        while (found := read_json(path)) is None:
            # In this order: a rank that has ended wrote its last word before.
            ended = os.path.exists(self._path(f"ended-{rank}"))
            if self.failure() is not None or (ended and not os.path.exists(path)):
                raise RanksError(f"rank {rank} ended before {what}, where rank {self.number} is")
            if time.monotonic() > until:
                raise RanksError(
                    f"rank {rank} did not come to {what} within {self._patience_s:.0f} s of rank"
                    f" {self.number}: the ranks do not make the same steps"
                )
            time.sleep(_POLL_S)
        if found["what"] != what:
            raise RanksError(
                f"rank {rank} is at {found['what']}, rank {self.number} at {what}: the ranks do not"
                " make the same steps"
            )
        return found["value"]

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _write(self, name: str, value: Any) -> None:
        temporary = self._path(f".{name}.{self.number}")
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(temporary, self._path(name))

    # --- failing -------------------------------------------------------------------------------

    def fail(self, failure: dict[str, Any]) -> dict[str, Any]:
        """Tell all ranks that the mode cannot work; whoever said so first is right."""
        if not self.several:
            return failure
        mine = self._path(f".failed.{self.number}")
        with open(mine, "w", encoding="utf-8") as file:
            json.dump({"rank": self.number, "failure": failure}, file)
        try:
            os.link(mine, self._path("failed.json"))
        except FileExistsError:
            return self.failure() or failure
        except OSError:  # a file system without links
            os.replace(mine, self._path("failed.json"))
        self._noticed.set()
        return failure

    def failure(self) -> dict[str, Any] | None:
        """Why the mode failed on whichever rank was the first; None as long as none did."""
        if self._failed is None and self.several:
            said = read_json(self._path("failed.json"))
            if said is not None:
                whose = "" if said["rank"] == self.number else f"on rank {said['rank']}: "
                failure = said["failure"]
                self._failed = failure | {"reason": whose + failure["reason"]}
        return self._failed

    @property
    def failed(self) -> dict[str, Any] | None:
        """The same, as far as the watching thread has seen it: costs nothing to ask."""
        return self._failed

    def notice(self) -> None:
        """This rank has taken note that the mode failed, or has nothing left to do."""
        self._noticed.set()

    def watch(self, stuck: Callable[[], None]) -> None:
        """Look for a failure of another rank; call `stuck` where this one does not notice.

        A rank that waits in a collective for one that has left would wait for minutes.
        """
        if not self.several:
            return

        def watching() -> None:
            while not self._over.wait(_WATCH_S):
                if self.failure() is not None:
                    if not self._noticed.wait(_GRACE_S):
                        stuck()
                    return

        threading.Thread(target=watching, name="gaptrace ranks", daemon=True).start()

    def end(self) -> None:
        """This rank records nothing more; nobody need wait for it."""
        self._over.set()
        self._noticed.set()
        if self.several:
            try:
                self._write(f"ended-{self.number}", {})
            except OSError:
                return  # the folder is gone: nobody is waiting there
