"""What surrounds a recording: versions, interpreter, script, git state, environment."""

from __future__ import annotations

import datetime
import getpass
import os
import platform
import re
import socket
import subprocess
import sys
from importlib import metadata
from typing import Any

import torch

from gaptrace_collectors import __version__
from gaptrace_collectors.device import cpu_name

# NVIDIA_REQUIRE_CUDA is a page of drivers that a container image accepts.
_ENV = re.compile(
    r"^(?!NVIDIA_REQUIRE_)(CUDA|CUBLAS|CUDNN|HIP|ROCR|ROCM|TORCH|PYTORCH|TORCHINDUCTOR|TORCHDYNAMO|INDUCTOR|TRITON"
    r"|NCCL|OMP|MKL|KMP|GOMP|OPENBLAS|NVIDIA|TEARDOWN_CUPTI|DISABLE_CUPTI|VLLM|SGLANG|SGL"
    r"|ATEN|CUTLASS|FLASH|XFORMERS|ACCELERATE|HF_HUB_OFFLINE|TRANSFORMERS|TOKENIZERS|LD_PRELOAD"
    r"|PYTHONHASHSEED|PYTHONOPTIMIZE)"
)
_SECRET = re.compile(r"TOKEN$|_TOKEN|KEY|SECRET|PASSW|AUTH|CREDENTIAL|COOKIE", re.IGNORECASE)


def versions(driver: str | None) -> dict[str, Any]:
    """Versions of everything that decides how fast a step is; null where absent."""
    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": cudnn,
        "driver": driver,
        "triton": _distribution("triton"),
        "transformers": _distribution("transformers"),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "gaptrace_collectors": __version__,
    }


def _distribution(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def environment() -> dict[str, str]:
    """Variables that change how torch runs; names that read like a secret are left out."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if _ENV.match(name) and not _SECRET.search(name)
    }


def host() -> dict[str, Any]:
    """Machine, user, process and processor count."""
    return {
        "name": socket.gethostname(),
        "user": _user(),
        "pid": os.getpid(),
        "cpus": os.cpu_count(),
    }


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None


def git_state(folder: str) -> dict[str, Any] | None:
    """Commit, branch and whether anything is uncommitted, of the script's folder; else None."""

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", folder, *args],
                capture_output=True,
                text=True,
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if commit is None:
        return None
    status = git("status", "--porcelain", "--untracked-files=no")
    return {
        "commit": commit,
        "branch": git("rev-parse", "--abbrev-ref", "HEAD"),
        "dirty": None if status is None else bool(status),
    }


def now() -> str:
    """The time in UTC, ISO 8601 with seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def personal_texts(script_dir: str) -> list[tuple[str, str]]:
    """Texts that say who and where, with what replaces them; longest first."""
    home = os.path.expanduser("~")
    pairs = {
        os.path.realpath(script_dir): "<script>",  # what the interpreter's path has
        os.path.abspath(script_dir): "<script>",
        os.getcwd(): "<cwd>",
        os.path.realpath(home): "<home>",
        home: "<home>",
        sys.prefix: "<python>",
        sys.base_prefix: "<python>",
        socket.gethostname(): "<host>",
    }
    user = _user()
    # A short name, or one that is also a word of the format, would tear the text apart.
    if user and len(user) > 4:
        pairs[user] = "<user>"
    texts = [(old, new) for old, new in pairs.items() if len(old) > 3 or new == "<host>"]
    texts = [(old, new) for old, new in texts if old not in ("", "/")]
    return sorted(texts, key=lambda pair: -len(pair[0]))


def redacted(value: Any, replacements: list[tuple[str, str]]) -> Any:
    """`value` with every personal text in it replaced."""
    if isinstance(value, str):
        for old, new in replacements:
            value = value.replace(old, new)
        return value
    if isinstance(value, dict):
        return {key: redacted(item, replacements) for key, item in value.items()}
    if isinstance(value, list):
        return [redacted(item, replacements) for item in value]
    return value
