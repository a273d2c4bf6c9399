#!/usr/bin/env bash
# Runs each fuzzer on its corpus, then on what it makes of it.   scripts/fuzz.sh SECONDS [TARGET...]
# 0 seconds: the corpus alone, so that what CI finds is the change's.
# scripts/fuzz.sh planted [TARGET...]: with faults planted in each target's run, and fails unless each is a finding.
# FUZZ_JOBS targets run at once (2). What is found is written to build/sanitize/findings, with how to run it again; new inputs go to
# build/sanitize/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "error: fuzz: expected seconds for each target, or planted, received nothing; try scripts/fuzz.sh 5" >&2; exit 2; }
seconds=$1
shift
program=build/sanitize/tests/fuzz/accrue_fuzz
[ -x "$program" ] || { echo "error: fuzz: expected $program; try make fuzz" >&2; exit 2; }

targets=("$@")
((${#targets[@]})) || mapfile -t targets < <("$program" --list)

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

findings=build/sanitize/findings
mkdir -p "$findings"
limits=(-timeout=10 -rss_limit_mb=2048 -max_len=65536 -verbosity=0 -print_final_stats=1)

fuzz() {
  local target=$1 log=$findings/$1.log new=build/sanitize/corpus/$1 kept=tests/fuzz/corpus/$1
  local flags=(--target="$target" "${limits[@]}" -artifact_prefix="$findings/$target-")
  # Each file of the corpus once, by itself; then mutations of them.
  if "$program" "${flags[@]}" -runs=0 "$kept" >"$log" 2>&1 &&
     { ((seconds == 0)) || { mkdir -p "$new" && "$program" "${flags[@]}" -max_total_time="$seconds" "$new" "$kept" >>"$log" 2>&1; }; }; then
    echo "fuzz: $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1) inputs, nothing found"
    return 0
  fi
  tail -n 60 "$log" >&2
  echo "fuzz: $target: found something; again with: $program --target=$target $findings/$target-..." >&2
  return 1
}

# plant TARGET FAULT REPORT: the run ends with an error, REPORT and an input kept to repeat it.
plant() {
  local target=$1 fault=$2 report=$3 place=$TMPDIR/planted-$1-$2
  mkdir "$place"
  if "$program" --target="$target" --planted="$fault" "${limits[@]}" -artifact_prefix="$place/" -runs=0 "tests/fuzz/corpus/$target" >"$place/log" 2>&1 ||
     ! grep -q "$report" "$place/log" || [ -z "$(find "$place" -name 'crash-*')" ]; then
    tail -n 20 "$place/log" >&2
    echo "fuzz: $target: expected the planted fault $fault to be found, with \"$report\" and an input kept, received the above" >&2
    return 1
  fi
}

# What the targets share reports its faults alike for all of them: those are planted in one target.
plant_all() {
  plant "$1" read "AddressSanitizer: heap-buffer-overflow" || return 1
  [ "$1" = "${targets[0]}" ] || return 0
  plant "$1" overflow "runtime error: signed integer overflow" &&
    plant "$1" exception "a planted exception" && plant "$1" expectation "expected: a planted expectation"
}

run=fuzz
if [ "$seconds" = planted ]; then
  # Names of functions take a report most of its time.
  ASAN_OPTIONS+=:symbolize=0
  UBSAN_OPTIONS=halt_on_error=1:symbolize=0
  run=plant_all
fi

# FUZZ_JOBS processes take a target after the other; each that fails leaves its name.
failed=$TMPDIR/failed
mkdir "$failed"
for target in "${targets[@]}"; do
  while (($(jobs -rp | wc -l) >= ${FUZZ_JOBS:-2})); do wait -n || true; done
  { "$run" "$target" || touch "$failed/$target"; } &
done
wait
[ -z "$(ls "$failed")" ] || { echo "error: fuzz: expected $([ "$run" = fuzz ] && echo "nothing to be found, received findings" || echo "planted faults to be found, received none") in $(ls "$failed" | tr '\n' ' '); try the inputs in $findings" >&2; exit 1; }
[ "$run" = fuzz ] || echo "fuzz: the faults planted in ${#targets[@]} targets are found"
