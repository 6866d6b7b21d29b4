"""A Python that has imported torch, and forks where another would start an interpreter.

Importing torch and what its profiler pulls in takes five sixths of a short recording. `WarmPython`
runs `python WORDS...` in a fork of one such process, and the recorder's own processes as forks of
that. Everything else is as in a fresh interpreter: arguments, folder, environment, files, session,
signals, exit code. What torch reads from the environment while it is imported is not: tests that
set such a variable, or look at imports and interpreters, take a fresh one.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

TORCH = ("torch", "torch.profiler", "torch._inductor.compile_fx", "torch._inductor.codegen.cpp")


class WarmPython:
    """The process that forks; started when it is first needed."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env={**env, "KINETO_LOG_LEVEL": "99"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, words: Sequence[object], *, cwd: Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """What `python WORDS...` returned and printed. Raises TimeoutExpired, the fork killed."""
        argv = [str(word) for word in words]
        out, err = cwd / ".stdout", cwd / ".stderr"
        files = {"cwd": str(cwd), "out": str(out), "err": str(err)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"argv": argv, "env": dict(env), **files}) + "\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        late = threading.Timer(timeout, os.killpg, (pid, signal.SIGKILL))
        late.start()
        code = int(self._process.stdout.readline())
        if not late.is_alive():
            raise subprocess.TimeoutExpired(argv, timeout)
        late.cancel()
        texts = [path.read_text() for path in (out, err)]
        for path in (out, err):
            path.unlink()
        return subprocess.CompletedProcess(argv, code, *texts)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Fork for each line of standard input, and tell process id and exit code of each fork."""
    del sys.path[0]  # the folder of this file
    for name in TORCH:
        __import__(name)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            as_interpreter(lambda request=request: _serve(request))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _serve(request: dict[str, Any]) -> None:
    os.setsid()
    os.chdir(request["cwd"])
    for fd, name in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, fd)
        os.close(file)
    _set_environment(request["env"])
    subprocess.Popen = WarmPopen  # type: ignore[misc]
    run_words(request["argv"])


def run_words(argv: list[str]) -> None:
    """What `python ARGV...` does: run a module, a file or a folder as `__main__`."""
    if argv[0] == "-m":
        sys.argv = argv[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = argv
        sys.path.insert(0, os.path.dirname(os.path.realpath(argv[0])))
        runpy.run_path(argv[0], run_name="__main__")


class WarmPopen(subprocess.Popen[Any]):
    """Forks where the recorder would start this interpreter for a recording."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        if args[0] != sys.executable or args[2:3] != ["--cell"]:
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        self._child_created = True
        if self.pid == 0:
            as_interpreter(lambda: _record(args[1:], rest[5]))


def _record(argv: list[str], env: Mapping[str, str]) -> None:
    _set_environment(env)
    run_words(argv)


def as_interpreter(work: Callable[[], None]) -> NoReturn:
    """Do the work and end the process as an interpreter would."""
    code: Any = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        atexit._clear()  # what the parent wants done at its end is not this process's to do
        work()
        code = 0
    except SystemExit as error:
        code = error.code
        if isinstance(code, str):
            sys.stderr.write(f"{code}\n")
            code = 1
    except BaseException:  # noqa: BLE001 (nothing may run on in the parent's frames)
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code or 0)


def _set_environment(env: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)


if __name__ == "__main__":
    main()
