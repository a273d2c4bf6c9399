#!/usr/bin/env bash
# clang-tidy on the sources that differ from a commit.   scripts/lint.sh [BASE]
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-HEAD~1}
database=build/lint/compile_commands.json
[ -f "$database" ] || { echo "error: lint: expected $database; try make lint" >&2; exit 2; }
# A source that this build leaves out (what needs CUDA's headers) has no command there.
mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp' 'apps/*.cpp' |
                     while read -r file; do ! grep -qF "/$file\"" "$database" || echo "$file"; done)
((${#files[@]})) || { echo "lint: nothing changed since $base"; exit 0; }
# clang cannot read g++'s precompiled header; the same includes are given as text instead.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -E "s#-include [^ ]*cmake_pch\.hxx#-include $PWD/src/support/pch.h#g; s#-Winvalid-pch##g" "$database" >"$folder/compile_commands.json"
# Some of the warnings that are turned off are g++'s own.
clang-tidy -p "$folder" --quiet --extra-arg=-Wno-unknown-warning-option "${files[@]}"
