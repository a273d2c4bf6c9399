#!/usr/bin/env bash
# Renews third_party/uplot from npm:   scripts/vendor_uplot.sh [VERSION]
# Without a version the one that the README there names, and then nothing may change.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'error: vendor_uplot: %s\n' "$*" >&2; exit 2; }
command -v npm >/dev/null || die "expected npm, received none; try apt-get install npm"

folder=third_party/uplot
version=${1:-$(sed -n 's/^version: //p' "$folder/README.md")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent "uplot@$version" >/dev/null) || die "expected uplot $version on npm, received an error (above)"
tar -xzf "$work/uplot-$version.tgz" -C "$work"
cp "$work/package/dist/uPlot.iife.min.js" "$work/package/dist/uPlot.min.css" "$work/package/LICENSE" "$folder/"
cat >"$folder/README.md" <<EOF
# uPlot

The charts of \`accrue report\` (docs/guide/report.md), as its authors built them: <https://github.com/leeoniya/uPlot>, MIT licence (\`LICENSE\`).
\`scripts/vendor_uplot.sh\` makes this folder anew; nothing here is edited by hand.

version: $version
source: npm package \`uplot\`, $(sha256sum "$work/uplot-$version.tgz" | cut -d' ' -f1) (sha256 of uplot-$version.tgz)

| file | sha256 |
|---|---|
$(cd "$folder" && sha256sum uPlot.iife.min.js uPlot.min.css LICENSE | sed 's/\(.*\)  \(.*\)/| \2 | \1 |/')
EOF
