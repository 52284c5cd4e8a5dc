#!/usr/bin/env bash
# The demo's translator on a document that it never saw, with no memory, a frozen one, and one that grows.
#
#   make demo && examples/growing_memory/run.sh          ten minutes on a CPU, after the demo
set -euo pipefail
cd "$(dirname "$0")/../.."

data=examples/demo/output/data/en-fr
translator=examples/demo/output/en-fr/SEG-1/checkpoint_last.pt
work=examples/growing_memory/output
pages=${1:-schart/} # the help of LibreOffice's charts
if [ ! -e "$translator" ]; then
  echo "The demo's translator is not there: run make demo first." >&2
  exit 1
fi
[ -x .venv/bin/python ] && PATH=$PWD/.venv/bin:$PATH
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}

[ -e "$work/document/document.fr" ] ||
  python examples/growing_memory/document.py "$pages" "$work/document" --seen "$data"/text/{train,dev}.en
python examples/growing_memory/translate.py "$work/document" "$work" --data-bin "$data/data-bin" \
  --path "$translator" --spm-source "$data/subword.en.model" --spm-target "$data/subword.fr.model"
