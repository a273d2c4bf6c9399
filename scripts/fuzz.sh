#!/usr/bin/env bash
# Runs each fuzzer on its corpus, then on what it makes of it.   scripts/fuzz.sh SECONDS [TARGET...]
# 0 seconds: the corpus alone, so that what CI finds is the change's.
# What is found is written to build/fuzz/findings, with how to run it again; new inputs go to build/fuzz/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "error: fuzz: expected seconds for each target, received nothing; try scripts/fuzz.sh 5" >&2; exit 2; }
seconds=$1
shift
program=build/fuzz/tests/fuzz/accrue_fuzz
[ -x "$program" ] || { echo "error: fuzz: expected $program; try make fuzz" >&2; exit 2; }

targets=("$@")
((${#targets[@]})) || mapfile -t targets < <("$program" --list)
((${#targets[@]})) || { echo "error: fuzz: expected targets of $program, received none; try $program --list" >&2; exit 2; }

# libtorch is not instrumented: what it allocates and what the harness frees do not match leak for leak.
export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:detect_container_overflow=0:allocator_may_return_null=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export OMP_NUM_THREADS=1
# Each input becomes a file: in memory, where there is such a place.
parent=${TMPDIR:-/tmp}
[ -w /dev/shm ] && parent=/dev/shm
TMPDIR=$(mktemp -d "$parent/accrue-fuzz.XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

mkdir -p build/fuzz/findings
failed=()
for target in "${targets[@]}"; do
  flags=(--target="$target" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -verbosity=0 -print_final_stats=1
         -artifact_prefix="build/fuzz/findings/$target-")
  log=build/fuzz/findings/$target.log
  # Each file of the corpus once, by itself; then mutations of them.
  if "$program" "${flags[@]}" -runs=0 "tests/fuzz/corpus/$target" >"$log" 2>&1 &&
     { ((seconds == 0)) || { mkdir -p "build/fuzz/corpus/$target" &&
       "$program" "${flags[@]}" -max_total_time="$seconds" "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" >>"$log" 2>&1; }; }; then
    echo "fuzz: $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1) inputs, nothing found"
  else
    failed+=("$target")
    tail -n 60 "$log" >&2
    echo "fuzz: $target: found something; again with: $program --target=$target build/fuzz/findings/$target-..." >&2
  fi
done
((${#failed[@]} == 0)) || { echo "error: fuzz: expected nothing to be found, received findings in ${failed[*]}; try the inputs in build/fuzz/findings" >&2; exit 1; }
