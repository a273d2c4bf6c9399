#!/usr/bin/env bash
# Builds accrue with other versions of libtorch and tests each.   scripts/matrix.sh [VERSION...]
# A row of docs/notes/torch_versions.md for each: version, kind of the wheel, what was compiled and run, minutes.
# Wheels and builds stay in .venv-matrix and build/matrix: a second run costs minutes less.
set -euo pipefail
cd "$(dirname "$0")/.."

versions=("$@")
((${#versions[@]})) || versions=(2.11.0 2.12.1 2.14.1 2.15.0)
JOBS=${JOBS:-$(nproc)}
TESTS=(core config kernels accum batch data memory optim models)

say() { printf 'matrix: %s\n' "$*" >&2; }
die() { printf 'error: matrix: %s\n' "$*" >&2; exit 2; }

# libtorch alone, with what libtorch_cpu.so loads.
wheel_of() {
  local venv=.venv-matrix/$1
  if [ ! -e "$venv/.accrue-stamp" ]; then
    say "installing torch $1"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check --no-deps "torch==$1" || die "expected torch $1 on the package index, received an error (above); try another version"
    local needed
    mapfile -t needed < <("$venv/bin/python" scripts/torch_needs.py)
    ((${#needed[@]} == 0)) || "$venv/bin/pip" install -q --disable-pip-version-check --no-warn-conflicts "${needed[@]}"
    touch "$venv/.accrue-stamp"
  fi
  "$venv/bin/python" -c 'import importlib.util as u, os; print(os.path.abspath(os.path.dirname(u.find_spec("torch").origin)))'
}

build() {
  local libtorch=$1 folder=$2
  cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12 \
    -DACCRUE_BUILD_TESTS=ON "-DACCRUE_LIBTORCH=$libtorch" "-DCMAKE_PREFIX_PATH=$PWD/.venv" &&
    cmake --build "$folder" -j "$JOBS" --target accrue "${TESTS[@]/%/_test}"
}

check() {
  local folder=$1 filter
  filter="^($(IFS='|'; echo "${TESTS[*]}"))\$"
  OMP_WAIT_POLICY=passive ctest --test-dir "$folder" --output-on-failure -j 1 -L "$filter" &&
    "$folder/accrue" --version
}

# A short training, the verb that a version could break without any test of a room noticing.
train() {
  local run
  run=$(mktemp -d)
  "$1/accrue" train examples/base/python.toml "--data.train=[\"scripts/*.sh\"]" "--data.val=[\"Makefile\"]" --run.steps=2 \
    --model.layers=1 --model.width=64 --model.context=64 --batch.tokens=1024 --batch.micro=4 --optim.schedule.warmup=1 \
    "--run.out=$run/out"
  local status=$?
  rm -rf "$run"
  return $status
}

failed=0
for version in "${versions[@]}"; do
  libtorch=$(wheel_of "$version")
  folder=build/matrix/$version
  log=build/matrix/$version.log
  mkdir -p build/matrix
  kind=CPU
  [ ! -e "$libtorch/lib/libtorch_cuda.so" ] || kind=CUDA
  begin=$SECONDS
  compiled=no tested=no trained=no
  say "building with torch $version ($kind), log in $log"
  if build "$libtorch" "$folder" >"$log" 2>&1; then
    compiled=yes
    check "$folder" >>"$log" 2>&1 && tested=yes
    train "$folder" >>"$log" 2>&1 && trained=yes
  fi
  printf '| %s | %s | %s | %s | %s | %d |\n' "$version" "$kind" "$compiled" "$tested" "$trained" $(((SECONDS - begin + 30) / 60))
  [ "$compiled$tested$trained" = yesyesyes ] || failed=1
done
((failed == 0)) || die "expected every version to build and pass, received failures (above); try the logs in build/matrix"
