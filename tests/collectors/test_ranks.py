"""Several processes that record the same script: how they agree, and what they leave."""

import json
import subprocess
import sys
import threading
import time

import pytest

from gaptrace_collectors import led
from gaptrace_collectors.ranks import Rank, Ranks, RanksError, rank_of
from gaptrace_collectors.running import Job

# --- which rank a process is


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, None),
        ({"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "0"}, Rank(1, 4, 0)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}, Rank(2, 3)),
        ({"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0"}, Rank(0, 2, 0)),
        (
            {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1"},
            Rank(5, 8, 1),
        ),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),  # a batch script, not one of its tasks
        ({"RANK": "0", "WORLD_SIZE": "1", "PMI_RANK": "1", "PMI_SIZE": "2"}, Rank(1, 2)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, Rank(0, 1)),
        ({"RANK": "7", "WORLD_SIZE": "2"}, None),
        ({"RANK": "one", "WORLD_SIZE": "2"}, None),
    ],
)
def test_the_rank_is_read_as_launchers_write_it(environment, rank):
    assert rank_of(environment) == rank


# --- agreement


@pytest.fixture
def two(tmp_path):
    return [Ranks(Rank(number, 2), str(tmp_path), 5.0) for number in (0, 1)]


def in_a_thread(work):
    """Run `work` beside the test; what it returned or raised, once it is over."""
    result = []

    def run():
        try:
            result.append(work())
        except RanksError as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return lambda: (thread.join(20), result[0])[1]


def test_all_get_what_each_said(two):
    other = in_a_thread(lambda: [two[1].gathered("a", 2), two[1].gathered("b", 4)])
    assert two[0].gathered("a", 1) == [1, 2]
    assert two[0].gathered("b", 3) == [3, 4]
    assert other() == [[1, 2], [3, 4]]


def test_alone_everything_is_agreed_at_once():
    assert Ranks().gathered("a", 1) == [1]
    assert Ranks(Rank(0, 1)).gathered("a", 1) == [1]


def test_ranks_at_different_steps_are_told_apart(two):
    other = in_a_thread(lambda: two[1].gathered("warm-up", 1))
    with pytest.raises(RanksError, match="rank 1 is at warm-up, rank 0 at timed before"):
        two[0].gathered("timed before", 1)
    assert isinstance(other(), RanksError)


def test_nobody_waits_for_a_rank_that_has_ended(two):
    two[1].end()
    began = time.monotonic()
    with pytest.raises(RanksError, match="rank 1 ended before warm-up, where rank 0 is"):
        two[0].gathered("warm-up", 1)
    assert time.monotonic() - began < 2


def test_patience_ends(tmp_path):
    alone = Ranks(Rank(0, 2), str(tmp_path), 0.1)
    with pytest.raises(RanksError, match=r"rank 1 did not come to warm-up within 0 s"):
        alone.gathered("warm-up", 1)


def test_the_first_failure_is_that_of_all(two):
    first = {"kind": "sync", "reason": "it waits", "evidence": []}
    assert two[1].fail(first)["reason"] == "it waits"
    later = two[0].fail({"kind": "capture_error", "reason": "another", "evidence": []})
    assert later["reason"] == "on rank 1: it waits"
    assert later["kind"] == "sync"


def test_a_rank_that_waits_for_one_that_failed_is_told(two, monkeypatch):
    monkeypatch.setattr("gaptrace_collectors.ranks._GRACE_S", 0.05)
    told = threading.Event()
    two[0].watch(told.set)
    two[1].fail({"kind": "sync", "reason": "it waits", "evidence": []})
    assert told.wait(10)
    assert two[0].failed["reason"] == "on rank 1: it waits"


# --- for real, two processes that add up over gloo

torch = pytest.importorskip("torch")

from tests.collectors.conftest import MODEL, QUICK, environment  # noqa: E402

TWO_RANKS = (
    MODEL.replace(
        "        return self.head(torch.relu(self.embed(ids)))",
        "        out = self.head(torch.relu(self.embed(ids)))\n"
        "        dist.all_reduce(out)\n"
        "        return out",
    )
    + """
import sys
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
SETUP
torch.manual_seed(0)
model = Model().eval()
with torch.no_grad():
    token = model(torch.arange(4)[None])[:, -1:].argmax(-1)
    for number in range(int(sys.argv[1])):
        STEP
        token = model(token)[:, -1:].argmax(-1)
print("rank", RANK, "is done")
dist.destroy_process_group()
"""
)
LAUNCH = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")


def script(bench, setup="", step=""):
    return bench.script(TWO_RANKS.replace("SETUP", setup).replace("STEP", step))


def rank_run(done, mode, rank):
    return json.loads((done.root / mode / "1" / f"rank-{rank}" / "run.json").read_text())


@pytest.mark.torch
def test_all_ranks_of_a_launch_are_recorded(bench):
    words = ("--modes", "eager,graph", *QUICK, "--", sys.executable, *LAUNCH)
    done = bench.collect_fresh(*words, script(bench), "100")
    assert done.code == 0, done.stderr
    assert done.stdout.count("is done") == 2
    runs = [rank_run(done, "eager", rank) for rank in (0, 1)]
    assert [run["rank"]["rank"] for run in runs] == [0, 1]
    assert {run["rank"]["world_size"] for run in runs} == {2}
    assert [run["status"] for run in runs] == ["ok", "ok"]
    assert runs[0]["profiled"]["complete"] == runs[1]["profiled"]["complete"] == 5
    plans = [run["step"]["decode_steps_seen"] for run in runs]
    assert plans[0] == plans[1] == 100
    assert runs[0]["script"]["launcher"][1:3] == ["-m", "torch.distributed.run"]
    index = json.loads((done.root / "collect.json").read_text())
    assert [cell["ranks"] for cell in index["cells"]] == [[0, 1], None]
    assert "graph skipped, they need a CUDA graph" in done.stderr
    assert not list(done.root.rglob("*.partial"))
    assert not list(done.root.rglob(".cell"))

    shown = subprocess.run(
        [sys.executable, "-m", "gaptrace", "analyze", str(done.root)],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert "ranks 0, 1 were recorded; what follows is rank 0" in " ".join(shown.stdout.split())


@pytest.mark.torch
def test_a_recorder_on_each_rank_records_all_modes(bench):
    out = bench.folder / "runs"
    words = ["-m", "gaptrace_collectors", "-o", str(out), "--name", "run", "--modes",
             "eager,compiled", *QUICK]  # fmt: skip
    done = subprocess.run(
        [sys.executable, *LAUNCH, *words, str(script(bench)), "100"],
        cwd=bench.folder, env=environment(), capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = sorted(str(path.parent.relative_to(out / "run")) for path in out.rglob("run.json"))
    assert found == [f"{mode}/1/rank-{rank}" for mode in ("compiled", "eager") for rank in (0, 1)]
    assert done.stderr.count("gaptrace: [1/2] eager 1") == 1
    assert not (out / ".run.ranks").exists()


@pytest.mark.torch
def test_too_few_steps_are_too_few_for_all(bench):
    words = ("--modes", "eager", *QUICK, "--", sys.executable, *LAUNCH)
    done = bench.collect_fresh(*words, script(bench), "35")
    assert done.code == 0, done.stderr
    assert "the script makes 35 decode steps; recording with fewer timed steps" in done.stderr
    assert [rank_run(done, "eager", rank)["status"] for rank in (0, 1)] == ["ok", "ok"]


@pytest.mark.torch
def test_a_mode_that_fails_on_one_rank_fails_on_all(bench):
    """The other waits in a collective for the one that left."""
    setup = (
        "if RANK == 1:\n"
        "    import torch._inductor.config as inductor\n"
        "    inductor.cpp.cxx = ('/nonexistent',)\n"
        "    inductor.force_disable_caches = True"
    )
    words = ("--modes", "eager,compiled", *QUICK, "--", sys.executable, *LAUNCH)
    done = bench.collect_fresh(*words, script(bench, setup), "100")
    assert done.code == 0, done.stderr
    failures = [rank_run(done, "compiled", rank)["failure"] for rank in (0, 1)]
    assert [failure["kind"] for failure in failures] == ["compile_error"] * 2
    assert failures[0]["reason"] == f"on rank 1: {failures[1]['reason']}"


@pytest.mark.torch
def test_a_script_that_raises_on_one_rank_is_told_with_that_rank(bench):
    step = "assert RANK == 0 or number != 20, 'rank one is out'"
    words = ("--modes", "eager", *QUICK, "--", sys.executable, *LAUNCH)
    done = bench.collect_fresh(*words, script(bench, step=step), "100")
    assert done.code == 1, done.stderr
    assert "on rank 1: the script raised before the recording was complete" in done.stderr
    assert "rank one is out; the script fails by itself as well" in done.stderr


@pytest.mark.torch
def test_why_one_rank_has_no_step_is_told_rather_than_that_it_left(bench):
    text = script(bench, step="if RANK == 1: break")
    text.write_text(text.read_text().replace("        dist.all_reduce(out)\n", ""))
    words = ("--modes", "eager", *QUICK, "--", sys.executable, *LAUNCH)
    done = bench.collect_fresh(*words, text, "100")
    assert done.code == 125, done.stderr
    assert "error: no decode step was found" in done.stderr


@pytest.mark.torch
def test_ranks_that_do_not_make_the_same_steps_are_not_waited_for_forever(bench):
    text = script(bench, step="import time; RANK == 1 and number == 3 and time.sleep(30)")
    text.write_text(text.read_text().replace("        dist.all_reduce(out)\n", ""))
    words = ("--modes", "eager", "--max-seconds", "1", *QUICK, "--", sys.executable, *LAUNCH)
    done = bench.collect_fresh(*words, text, "100", timeout=120)
    assert done.code == 125, done.stderr
    assert "rank 1 did not come to" in done.stderr


# --- one recorder per rank


class Asked:
    """A job that is run on two ranks by threads of this process."""

    def __init__(self, folder, monkeypatch):
        self.folder = str(folder / "meeting")
        monkeypatch.setattr(led, "_ABANDONED_S", 0.2)

    def run(self, words):
        """Exit codes of the leader's run and of the follower."""
        following = in_a_thread(lambda: led.follow(self.folder, Rank(1, 2)))
        leader = led.Leader(self.folder, Rank(0, 2))
        code = leader.run(Job([sys.executable, "-c", words]), lambda: None)
        leader.end(code)
        return code, following()


def test_all_ranks_run_what_the_leader_says(tmp_path, monkeypatch):
    out = tmp_path / "out"
    words = f"open({str(out)!r}, 'a').write('x')"
    assert Asked(tmp_path, monkeypatch).run(words) == (0, 0)
    assert out.read_text() == "xx"
    assert not (tmp_path / "meeting").exists()


def test_a_rank_that_waits_for_one_that_failed_is_ended(tmp_path, monkeypatch):
    first = str(tmp_path / "first")
    words = (
        "import os, sys, time\n"
        f"try: os.mkdir({first!r})\n"
        "except FileExistsError: time.sleep(60)\n"
        "sys.exit(3)"
    )
    began = time.monotonic()
    assert Asked(tmp_path, monkeypatch).run(words) == (3, 3)
    assert time.monotonic() - began < 30


def test_what_an_older_run_left_is_not_taken_for_the_leaders_word(tmp_path, monkeypatch):
    asked = Asked(tmp_path, monkeypatch)
    (tmp_path / "meeting").mkdir()
    (tmp_path / "meeting" / "end.json").write_text('{"code": 9}')
    (tmp_path / "meeting" / "welcome-1.json").write_text('{"word": "old"}')
    assert asked.run("pass") == (0, 0)


def test_nobody_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(led, "_MEETING_S", 0.1)
    folder = str(tmp_path / "meeting")
    with pytest.raises(led.MeetingError, match="no recorder of rank 1, 2 came"):
        led.Leader(folder, Rank(0, 3))
    with pytest.raises(led.MeetingError, match="the recorder of rank 0 did not come"):
        led.follow(folder, Rank(1, 3))
