#!/usr/bin/env bash
# Trains examples/base/python.toml on the standard library of the interpreter that set-up used, then lets
# the model write. Files whose names begin with t to z are held out.
set -euo pipefail
cd "$(dirname "$0")/.."
library=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["stdlib"])')
# Without bf16 instructions its products are made of fp32's, and fp32 is faster.
grep -qE 'avx512_bf16|amx_bf16' /proc/cpuinfo 2>/dev/null && compute=bf16 || compute=fp32
run=runs/demo-$(date +%Y%m%d-%H%M%S)
echo "Training in $compute on the Python sources in $library"
build/release/accrue train examples/base/python.toml \
  "--data.train=[\"$library/[_a-s]*.py\", \"$library/[_a-r]*/**/*.py\"]" \
  "--data.val=[\"$library/[t-z]*.py\"]" \
  "--precision.compute=$compute" "--run.out=$run"
printf '\nA sample of what it learned, after two lines of prompt:\n\n'
build/release/accrue sample "$run" --prompt $'import os\n\nclass ' --tokens 400 --temperature 0.6
printf '\n\nThe run:    %s (config.toml, run.json, metrics.jsonl, checkpoints/)\n' "$run"
printf 'Go on:      build/release/accrue sample %s --prompt "def " \n' "$run"
build/release/accrue report "$run" >/dev/null
printf 'Look at it: %s/report.html (one page, in any browser)\n' "$run"
printf 'Export:     build/release/accrue export %s --out %s/hf\n' "$run" "$run"
