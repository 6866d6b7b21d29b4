"""Where in the user's code something happened: frames of torch and of the recorder do not count."""

import os
import traceback

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from gaptrace_collectors import failure  # noqa: E402

TORCH = os.path.dirname(torch.__file__)


def frame(name, line=3):
    return traceback.FrameSummary(name, line, "forward", line="x = cat(x)", lookup_line=False)


@pytest.mark.parametrize(
    "name",
    [
        os.path.join(TORCH, "nn", "modules", "module.py"),
        failure.__file__,
        os.path.join(os.path.dirname(traceback.__file__), "contextlib.py"),
        "<frozen importlib._bootstrap>",
    ],
    ids=["torch", "recorder", "standard library", "frozen"],
)
def test_what_is_nobodys_code_is_passed_over(name):
    mine = frame("/home/me/model.py")
    assert failure.where_of([mine, frame(name)]) == "/home/me/model.py:3 in forward: x = cat(x)"
    assert failure.where_of([frame(name)]) == ""


@pytest.mark.parametrize(
    "name",
    [
        "/opt/torch/venv/lib/python3.12/site-packages/transformers/cache_utils.py",
        "/home/me/torch/model.py",
        os.path.join(os.path.dirname(traceback.__file__), "site-packages", "vllm", "model.py"),
    ],
    ids=["environment called torch", "folder called torch", "installed below the library"],
)
def test_a_folder_called_torch_is_not_torch(name):
    assert failure.where_of([frame(name)]) == f"{name}:3 in forward: x = cat(x)"


def test_what_cannot_be_written_is_the_recorders_error(tmp_path):
    with pytest.raises(failure.RecorderError) as caught, failure.writing("runs/x"):
        (tmp_path / "missing" / "file").write_text("")
    assert caught.value.message == "runs/x cannot be written: No such file or directory"
    assert "space" in caught.value.hint
