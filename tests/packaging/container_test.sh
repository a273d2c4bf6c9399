#!/usr/bin/env bash
# What Containerfile runs, in bare Debians made by debootstrap: builds the package in one, installs it in another, and trains there.
#   container_test.sh [DEB]   with a package that is built already, installing alone
# As root, with the network; apt and pip are configured as they are on this machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
package=${1:-}
skip() { echo "skipped: $*"; exit 77; }
# What a set-up brings is required where everything is, as tests/support/skips.py has it.
missing() { [ -z "${ACCRUE_REQUIRE_ALL:-}" ] || { echo "failed: $*, and ACCRUE_REQUIRE_ALL is set"; exit 1; }; skip "$*"; }
[ "$(id -u)" -eq 0 ] || skip "only root can make a bare Debian"
command -v debootstrap >/dev/null || missing "there is no debootstrap; scripts/setup.sh test installs it"

work=$(mktemp -d)
leave() {
  local folder
  for folder in "$work"/*/proc; do ! mountpoint -q "$folder" || umount "$folder"; done
  rm -rf --one-file-system "$work"
}
trap leave EXIT

# bare_debian FOLDER: Debian 12 with nothing but apt, and this machine's configuration of apt and pip.
bare_debian() {
  local mirror path
  mirror=$(sed -n -E 's/^(URIs: *|deb +(\[[^]]*\] +)?)(https?:[^ ]*\/debian)( .*)?$/\3/p' /etc/apt/sources.list.d/* /etc/apt/sources.list 2>/dev/null | head -1 || true)
  debootstrap --variant=minbase --include=ca-certificates bookworm "$1" "$mirror" >"$work/debootstrap.log" 2>&1 || { cat "$work/debootstrap.log"; return 1; }
  for path in /etc/apt/apt.conf.d /etc/apt/auth.conf.d /etc/hosts /etc/resolv.conf /etc/pip.conf \
              $(python3 -m pip config list 2>/dev/null | grep -oE "'/[^']+'" | tr -d "'") "${SSL_CERT_FILE:-}"; do
    [ ! -e "$path" ] || { mkdir -p "$1$(dirname "$path")" && cp -rL "$path" "$1$(dirname "$path")"; }
  done
  mount --bind /proc "$1/proc"
}

if [ -n "$package" ]; then
  mkdir "$work/package"
  cp "$package" "$work/package"
else
  bare_debian "$work/build"
  mkdir "$work/build/accrue"
  git ls-files -z | tar -c --null -T - | tar -x -C "$work/build/accrue"
  chroot "$work/build" /accrue/packaging/container.sh build /accrue /package
  mv "$work/build/package" "$work/package"
fi

bare_debian "$work/system"
mv "$work/package" "$work/system/package"
cp packaging/container.sh "$work/system/package"
chroot "$work/system" /package/container.sh install /package
mkdir "$work/system/work"
for line in $(seq 500); do echo "line $line of a text"; done >"$work/system/work/text.txt"
cp tests/packaging/run.toml "$work/system/work"
chroot "$work/system" sh -c 'cd /work && accrue train run.toml && accrue verify run.toml'
echo "passed: accrue trains in a bare Debian"
