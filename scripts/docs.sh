#!/usr/bin/env bash
# The headers' contracts as HTML in build/docs.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v doxygen >/dev/null; then
  as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends doxygen >/dev/null
fi
mkdir -p build/docs
doxygen docs/Doxyfile
echo "build/docs/html/index.html"
