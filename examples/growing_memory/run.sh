#!/usr/bin/env bash
# The demo's model on a document that it never saw, with no memory, a frozen one, and one that grows.
#
#   make demo && examples/growing_memory/run.sh          ten minutes on a CPU, after the demo
set -euo pipefail
cd "$(dirname "$0")/../.."

model=examples/demo/output/en-fr/SEG-recommended-1/model
work=examples/growing_memory/output
pages=${1:-schart/} # the help of LibreOffice's charts
if [ ! -e "$model" ]; then
  echo "The demo's model folder is missing: run make demo first." >&2
  exit 1
fi
[ -x .venv/bin/python ] && PATH=$PWD/.venv/bin:$PATH

[ -e "$work/document/document.fr" ] ||
  python examples/growing_memory/document.py "$pages" "$work/document" \
    --seen examples/demo/output/data/en-fr/text/{train,dev}.en
python examples/growing_memory/translate.py "$work/document" "$work" --model "$model"
