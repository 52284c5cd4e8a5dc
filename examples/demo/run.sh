#!/usr/bin/env bash
# From nothing to a table of scores: TM (copy of the nearest translation), NMT, SEG-NMT without and with its memory.
#
#   examples/demo/run.sh            LibreOffice's help, from Debian's packages
#   examples/demo/run.sh PREFIX     PREFIX.en and PREFIX.fr, one sentence a line
#
# Prints each command before it runs, so that you can copy it. A step that is finished is not repeated, and a run that
# was stopped goes on where it was: remove the work folder to begin anew.
set -euo pipefail
corpus=${1:+$(realpath -m "$1")}
cd "$(dirname "$0")/../.."

UPDATES=2000 # of batches of 32 sentences: 8 epochs of 8,000 pairs
work=examples/demo/output/$(basename "${corpus:-libreoffice-help}")
mkdir -p "$work"
export OMP_NUM_THREADS=1 # Two trainings side by side, one a core.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

run() { # COMMAND...: print a command and run it.
  printf '\n$ %s\n' "$*" >&2
  "$@"
}
once() { # STEP COMMAND...: run a command unless it has finished before.
  [ -e "$work/$1.finished" ] && return
  run "${@:2}"
  touch "$work/$1.finished"
}

# 1. Text: up to 8,000 short training pairs, 500 to validate, 500 to test.
once prepare python examples/libreoffice_help/prepare.py --subset --output "$work/text" ${corpus:+--corpus "$corpus"}

# 2. Subwords: 4,000 symbols a language.
for lang in en fr; do
  once "subword-$lang" seg-subword train --input "$work/text/train.$lang" --model "$work/subword.$lang" --vocab-size 4000
  for set in train dev test; do
    once "encode-$set-$lang" seg-subword encode --model "$work/subword.$lang.model" \
      --input "$work/text/$set.$lang" --output "$work/symbols/$set.$lang"
  done
done

# 3. Binarize.
once binarize fairseq-preprocess -s en -t fr --trainpref "$work/symbols/train" --validpref "$work/symbols/dev" \
  --testpref "$work/symbols/test" --srcdict "$work/subword.en.dict.txt" --tgtdict "$work/subword.fr.dict.txt" \
  --destdir "$work/data-bin"

# 4. Retrieve for every sentence the training pairs that resemble it, and see what they are worth.
once attach seg-attach "$work/data-bin" -s en -t fr
once stats seg-stats "$work/data-bin" -s en -t fr --copies "$work/tm"

# 5. Train. First half of the budget: a plain translator. Second half: the plain translator goes on, in the background,
# and the guided one starts from where it stood. A guided translator can be trained from nothing too, but takes longer
# before its own half of the work, generating, is as good as a plain one's.
train=(fairseq-train "$work/data-bin" -s en -t fr --user-dir fairseq_seg --task seg_translation --arch seg_gru_small
  --criterion seg_cross_entropy --optimizer adam --lr 0.001 --clip-norm 1.0 --batch-size 32
  --no-epoch-checkpoints --save-interval-updates 250 --keep-interval-updates 1 --seed 1)
once train-half "${train[@]}" --memory-k 0 --max-update $((UPDATES / 2)) --save-dir "$work/nmt"
[ -e "$work/half.pt" ] || cp "$work/nmt/checkpoint_last.pt" "$work/half.pt"
if [ ! -e "$work/train-nmt.finished" ]; then
  printf '\n$ %s\n' "${train[*]} --memory-k 0 --max-update $UPDATES --save-dir $work/nmt > $work/train-nmt.log &" >&2
  "${train[@]}" --memory-k 0 --max-update "$UPDATES" --save-dir "$work/nmt" >"$work/train-nmt.log" 2>&1 &
  nmt=$!
fi
once train-seg "${train[@]}" --memory-k 1 --max-update $((UPDATES / 2)) --finetune-from-model "$work/half.pt" \
  --save-dir "$work/seg"
if [ -n "${nmt:-}" ]; then
  echo "Waiting for the plain translator ($work/train-nmt.log)." >&2
  wait "$nmt" || { echo "Training the plain translator failed: the reason is at the end of $work/train-nmt.log." >&2; exit 1; }
  touch "$work/train-nmt.finished"
fi

# 6. Translate the test set.
translate() { # NAME CHECKPOINT K: write NAME.fr.
  [ -e "$work/$1.fr" ] && return
  run fairseq-generate "$work/data-bin" -s en -t fr --user-dir fairseq_seg --task seg_translation \
    --path "$2/checkpoint_best.pt" --memory-k "$3" --beam 5 --batch-size 32 --remove-bpe sentencepiece >"$work/$1.generated"
  grep ^H- "$work/$1.generated" | cut -c3- | sort -n | cut -f3- >"$work/$1.fr.part"
  mv "$work/$1.fr.part" "$work/$1.fr"
}
translate nmt "$work/nmt" 0
translate seg-without-memory "$work/seg" 0
translate seg "$work/seg" 1

# 7. Score: the systems below each other, and sacrebleu's signature, which says how the score was made.
cd "$work"
run sacrebleu text/test.fr -i tm/test.fr nmt.fr seg-without-memory.fr seg.fr -m bleu chrf -f text
echo "tm: the nearest translation copied as it is. seg-without-memory: the guided translator, its memory taken away."
