"""While a CUDA graph is captured nothing is touched; no graph serves a freed object."""

import gc
import threading

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from gaptrace_collectors import captures, script_run  # noqa: E402
from gaptrace_collectors.capture import Identity, _signature  # noqa: E402
from tests.collectors.conftest import LOOP, QUICK  # noqa: E402


class StandIn:
    """A CUDA graph of a machine without CUDA."""

    fails = False

    def capture_begin(self, *args, **kwargs):
        if self.fails:
            raise RuntimeError("not now")

    def capture_end(self):
        """Nothing was captured."""


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.setattr(torch.cuda, "CUDAGraph", StandIn)
    monkeypatch.setattr(StandIn, "capture_begin", StandIn.capture_begin)
    monkeypatch.setattr(StandIn, "capture_end", StandIn.capture_end)
    made = captures.Captures()
    made.install()
    yield made
    made.remove()


def test_captures_of_all_threads_are_seen(counted):
    assert not counted.under_way
    one, other = StandIn(), StandIn()
    thread = threading.Thread(target=one.capture_begin)
    thread.start()
    thread.join()
    assert counted.under_way
    other.capture_begin()
    one.capture_end()
    assert counted.under_way
    other.capture_end()
    assert not counted.under_way


def test_a_capture_that_does_not_begin_is_not_counted(counted):
    graph = StandIn()
    graph.fails = True
    with pytest.raises(RuntimeError, match="not now"):
        graph.capture_begin()
    assert not counted.under_way


def test_nothing_is_counted_any_more_once_removed(counted):
    counted.remove()
    StandIn().capture_begin()
    assert not counted.under_way


def test_decode_calls_within_a_capture_are_made_and_not_recorded(bench):
    """The script's capture is a flag here; what the recorder does meanwhile would be the same."""
    text = LOOP.replace(
        "        token = model(token)[:, -1:].argmax(-1)\n",
        "        if recorder is not None and number in (3, 20):\n"
        "            recorder._count(1)\n"
        "        token = model(token)[:, -1:].argmax(-1)\n"
        "        if recorder is not None and number in (5, 22):\n"
        "            recorder._count(-1)\n",
    ).replace("for _ in range(steps)", "for number in range(steps)")
    text = text.replace(
        "model = Model().eval()",
        "model = Model().eval()\n"
        "found = sys.modules.get('gaptrace_collectors.captures')\n"
        "recorder = found and found.CAPTURES",
    )
    done = bench.collect("--modes", "as-is", *QUICK, bench.script(text), "90")
    assert done.code == 0, done.stderr
    run = done.run("as-is")
    assert run["step"]["decode_steps_seen"] == 90 - 6
    assert f"6 {script_run.CAPTURING}" in run["notes"]


# --- what a captured graph is kept under


class Cache:
    """An object that is passed to a step."""


def test_an_object_is_itself_and_no_other():
    one, other = Cache(), Cache()
    assert _signature((one,), {"x": 1}) == _signature((one,), {"x": 1})
    assert _signature((one,), {}) != _signature((other,), {})


def test_a_freed_object_matches_nothing_even_at_its_address():
    one = Cache()
    key = Identity(one)
    del one
    gc.collect()
    for _ in range(1000):  # some of these lie where the first one lay
        assert key != Identity(Cache())
    assert key != key.__class__(Cache())


def test_an_object_without_weak_references_is_kept():
    value = object()
    assert Identity(value) == Identity(value)
    assert Identity(value) != Identity(object())
