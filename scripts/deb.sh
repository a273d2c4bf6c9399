#!/usr/bin/env bash
# scripts/deb.sh BUILD OUT: packs the command of a configured build folder, as OUT/accrue_*.deb. What it needs and Debian does not have
# (oneDNN, Arrow where the build has it) goes into the package; libtorch does not.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 out=$2
packed=$(mktemp -d)
trap 'rm -rf "$packed"' EXIT

cmake --build "$build" -j "$(nproc)" --target accrue_packaged
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$packed" >"$packed/log" 2>&1 || { cat "$packed/log" >&2; exit 1; }
mkdir -p "$out"
rm -f "$out"/accrue_*.deb
cp "$packed"/accrue_*.deb "$out"
ls "$out"/accrue_*.deb
