#!/usr/bin/env bash
# scripts/wheel.sh BUILD OUT: packs the Python package of a configured build folder, as OUT/accrue-*.whl. What it needs besides torch
# (oneDNN, codecs, Arrow where the build has it) goes into the wheel; torch's libraries and its OpenMP do not.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 out=$2
bin=.venv-wheel/bin
loose=$(mktemp -d)
trap 'rm -rf "$loose"' EXIT

cmake --build "$build" -j "$(nproc)" --target accrue accrue_native
"$bin/python" -m pip wheel . -q --disable-pip-version-check --no-deps --no-build-isolation -w "$loose" \
  -C build-dir="$build" -C cmake.args=-GNinja
site=$("$bin/python" -c 'import importlib.util as u, os; print(os.path.dirname(u.find_spec("torch").origin))')
exclude=()
for library in "$site"/lib/*.so*; do exclude+=(--exclude "$(basename "$library")"); done
mkdir -p "$out"
rm -f "$out"/accrue-*.whl
PATH="$PWD/$bin:$PATH" LD_LIBRARY_PATH="$site/lib:$PWD/.venv/lib" "$bin/python" -m auditwheel -v repair --plat auto \
  "${exclude[@]}" -w "$out" "$loose"/accrue-*.whl >"$loose/repair.log" 2>&1 || { cat "$loose/repair.log" >&2; exit 1; }
ls "$out"/accrue-*.whl
