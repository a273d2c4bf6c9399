#!/usr/bin/env bash
# Builds everything from a clone of the last commit, without ccache: what somebody who begins has to wait for.   scripts/cold_build.sh
# The environments of set-up are those of this tree. The clone is removed again, unless the build failed.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
clone=$root/build/cold

make --no-print-directory setup-test setup-wheel
rm -rf "$clone"
mkdir -p build
git clone --quiet --no-hardlinks "$root" "$clone"
for folder in .venv .venv-test .venv-parquet .venv-unicode .venv-wheel; do
  ln -s "$root/$folder" "$clone/$folder"
done
begin=$SECONDS
CCACHE_DISABLE=1 make --no-print-directory -C "$clone" build-all
echo "cold build: $((SECONDS - begin)) s"
rm -rf "$clone"
