#!/bin/sh
# What Containerfile runs in a bare Debian, as root:
#   container.sh build SOURCE OUT   the command as a Debian package in OUT
#   container.sh install OUT        that package, and libtorch as /opt/libtorch, where the package looks for it
set -eu
export DEBIAN_FRONTEND=noninteractive

install_packages() {
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  rm -rf /var/lib/apt/lists/*
}

build() {
  install_packages ca-certificates make
  make -C "$1" deb
  mkdir -p "$2"
  cp "$1"/dist/accrue_*.deb "$2"
}

install() {
  install_packages ca-certificates python3 python3-venv "$1"/accrue_*.deb
  python3 -m venv /opt/torch
  /opt/torch/bin/pip install -q --no-cache-dir --disable-pip-version-check "torch==$(sed -n 's/^built_with=//p' /usr/bin/accrue)"
  ln -s /opt/torch/lib/python3*/site-packages/torch /opt/libtorch
}

case "${1:-}" in
  build | install) "$@" ;;
  *) echo "error: container.sh: expected build or install, received '${1:-}'; try container.sh install FOLDER" >&2; exit 2 ;;
esac
