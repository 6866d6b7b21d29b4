#!/usr/bin/env bash
# Install what the tests need into .venv and run everything: lint, types, import contract, tests.
# One command on a fresh machine; a second run reuses the environment.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
if [ ! -x .venv-test/bin/python ]; then
  "$python" -m venv .venv-test
fi
bin=$PWD/.venv-test/bin
"$bin/pip" install --quiet --disable-pip-version-check -e '.[dev,hta,dashboard,browser,dask]'
# The recorder's tests need torch; the CPU build is enough. Skipped where it cannot be had.
if ! "$bin/python" -c 'import torch' 2>/dev/null; then
  "$bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 transformers nvidia-ml-py ||
    echo 'no torch for this Python: the tests of the recorder are skipped'
fi

"$bin/ruff" check .
"$bin/ruff" format --check .
"$bin/mypy"
"$bin/lint-imports"
"$bin/python" -m pytest "$@"
