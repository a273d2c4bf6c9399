#!/usr/bin/env bash
# The documents, the C++ reference and the Python reference as pages: build/docs/html/index.html. Needs `scripts/setup.sh docs`, and no network.
# A link that leads nowhere is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf build/docs
mkdir -p build/docs
doxygen docs/Doxyfile
scripts/docs_source.py
.venv-docs/bin/python -m sphinx --quiet --fail-on-warning --keep-going -c docs/site -d build/docs/doctrees -b html build/docs/source build/docs/html
cp docs/site/index.html build/docs/html
echo "build/docs/html/index.html"
