"""TM above a threshold, else NMT: what a translator's workbench does.

A sentence whose best retrieved pair reaches the threshold gets that pair's target verbatim; any other sentence gets the
plain translation. `tune` finds the threshold that leaves the least work on the development set; `translate` uses it.

    python examples/peers/threshold.py tune data-bin nmt.pt threshold.json --references dev.fr
    python examples/peers/threshold.py translate data-bin nmt.pt threshold.json --split test > test.out

Further options, such as --beam, are those of fairseq-generate.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np
from rapidfuzz.distance import Levenshtein

from fairseq_seg.errors import SegError, command
from fairseq_seg.evaluate.decode import generate
from fairseq_seg.evaluate.outputs import read_output
from fairseq_seg.evaluate.split import Split, load_split
from fairseq_seg.files import write_whole


def edits(translation: str, reference: str) -> int:
    """Count the words to insert, delete or replace to turn a translation into its reference."""
    return Levenshtein.distance(translation.split(), reference.split())


def tune(best: np.ndarray, copied: np.ndarray, translated: np.ndarray) -> float:
    """Return the threshold with the fewest edits in all, infinity if no pair is worth copying.

    Args:
        best: fuzzy scores of the best pairs, (N,), -1 without any.
        copied, translated: edits that the pair's target and the plain translation need, (N,).
    """
    order = np.argsort(-best, kind="stable")
    # The edits saved by copying the first n pairs, for all n at once; only the last of equal scores is a threshold.
    saved = np.concatenate([[0], np.cumsum((translated - copied)[order])])
    ranked = best[order]
    last = np.append(ranked[1:] != ranked[:-1], True) & (ranked >= 0)
    candidates = np.concatenate([[0], np.flatnonzero(last) + 1])
    most = candidates[np.argmax(saved[candidates])]  # of equal ones, the highest threshold
    return math.inf if most == 0 else float(ranked[most - 1])


def choose(best: np.ndarray, copied: list[str], translated: list[str], threshold: float) -> list[str]:
    """Return the pair's target where its score reaches the threshold, else the translation."""
    return [tm if score >= threshold else nmt for score, tm, nmt in zip(best, copied, translated, strict=True)]


def translations(split: Split, checkpoint: Path, options: list[str]) -> list[str]:
    """Translate a split with the plain translator; the output is kept beside the checkpoint."""
    kept = checkpoint.parent / "threshold.outputs"
    return read_output(generate("NMT", checkpoint, ["--memory-k", "0", *options], split, kept), split).lines


def run_tune(args: argparse.Namespace, options: list[str]) -> None:
    """Find the threshold on a split with references."""
    split = load_split(args.data, args.split or "valid", args.source, args.target, args.references)
    sides = split.pair_targets, translations(split, args.path, options)
    copied, translated = (np.array(list(map(edits, side, split.references))) for side in sides)
    threshold = tune(split.best, copied, translated)
    words = sum(len(reference.split()) for reference in split.references)
    above = split.best >= threshold
    fitted = {
        "threshold": threshold,
        "effort": float(np.where(above, copied, translated).sum() / words),
        "effort of NMT": float(translated.sum() / words),
        "effort of TM": float(copied.sum() / words),
        "share copied": float(above.mean()),
    }
    with write_whole(args.threshold) as stream:
        stream.write(json.dumps(fitted).encode())
    print(json.dumps(fitted))


def run_translate(args: argparse.Namespace, options: list[str]) -> None:
    """Print one translation per sentence."""
    try:
        threshold = json.loads(args.threshold.read_text(encoding="utf-8"))["threshold"]
    except (OSError, ValueError, KeyError, TypeError):
        raise SegError(f"{args.threshold} holds no threshold: run threshold.py tune first.") from None
    split = load_split(args.data, args.split or "test", args.source, args.target)
    lines = choose(split.best, split.pair_targets, translations(split, args.path, options), threshold)
    print("\n".join(lines))


@command("threshold.py")
def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["tune", "translate"])
    parser.add_argument("data", metavar="DATA-BIN", help="a data-bin that seg-attach has run on")
    parser.add_argument("path", type=Path, metavar="CHECKPOINT", help="the plain translator")
    parser.add_argument("threshold", type=Path, metavar="FILE", help="where the threshold is kept")
    parser.add_argument("-s", "--source", metavar="LANG", help="source language (default: the first of the data-bin)")
    parser.add_argument("-t", "--target", metavar="LANG", help="target language (default: the second of the data-bin)")
    parser.add_argument("--split", help="default: valid to tune, test to translate")
    parser.add_argument("--references", metavar="FILE", help="to tune (default: the split's binarized target side)")
    args, options = parser.parse_known_args()
    {"tune": run_tune, "translate": run_translate}[args.step](args, options)


if __name__ == "__main__":
    main()
