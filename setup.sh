#!/usr/bin/env bash
# Leaves a ready environment in .venv: the pinned packages, this project, and a Java runtime where none is found.
# Done once it takes a fraction of a second; it starts again only when the pins or the project's metadata change.
set -euo pipefail
cd "$(dirname "$0")"

python=${PYTHON:-python3}
stamp=.venv/.ready
want=$(cat pyproject.toml constraints.txt setup.sh | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && .venv/bin/python -m pipelines.spark.java --check 2>/dev/null; then
  exit 0
fi

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
case "$version" in
  3.11 | 3.12 | 3.13 | 3.14) ;;
  *)
    echo "dtoss needs Python 3.11 to 3.14; $python is $version. Point PYTHON at another one: make setup PYTHON=python3.12" >&2
    exit 2
    ;;
esac

if ! [ -x .venv/bin/python ] || [ "$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')" != "$version" ]; then
  rm -rf .venv
  "$python" -m venv .venv
fi
echo "setup: installing the pinned packages into .venv (a few minutes the first time)" >&2
.venv/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt --editable ".[dev,bench]"
.venv/bin/python -m pipelines.spark.java --check
printf '%s' "$want" > "$stamp"
echo "setup: ready; activate with: . .venv/bin/activate" >&2
