"""seg-stats: show from an attached data-bin, before any training, whether a memory can help."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if not __package__:  # run as a script from the clone
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_seg.cli.options import add_data_bin
from fairseq_seg.corpus.settings import SUBWORD_KINDS
from fairseq_seg.errors import SegError, command, need


def get_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = argparse.ArgumentParser(
        prog="seg-stats",
        description="Show how well the pairs that seg-attach retrieved fit each split: fuzzy scores, duplicates, "
        "coverage, and the BLEU of copying the best pair's target (TM). If the scores and the BLEU are both high, a "
        "memory is likely to help.",
    )
    add_data_bin(parser, "a data-bin that seg-attach has run on")
    help = "how the target text was split into symbols (default: inferred from the dictionary)"
    parser.add_argument("--subword", choices=SUBWORD_KINDS, help=help)
    parser.add_argument("--copies", metavar="FOLDER", help="also write the TM translations, to FOLDER/SPLIT.TARGET")
    parser.add_argument("--png", metavar="FILE", help="also draw a histogram of the best scores")
    return parser


@command("seg-stats")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = get_parser().parse_args(arguments)
    from fairseq_seg.corpus.databin import DataBin

    if options.png:
        need("matplotlib", "plots", "--png")
    from fairseq_seg.evaluate.split_stats import draw_histogram, split_stats, stats_report

    data = DataBin(options.data, options.source_lang, options.target_lang)
    all_stats = []
    for split in filter(lambda split: data.attached_path(split).exists(), data.splits()):
        all_stats.append(split_stats(split, data, options.subword))
        print(stats_report(all_stats[-1]), flush=True)
        if options.copies and (copies := all_stats[-1].copies):
            path = Path(options.copies) / f"{split}.{data.target_lang}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{copy}\n" for copy in copies), encoding="utf-8")
    if not all_stats:
        raise SegError(f"{data.folder} has no attached pairs: run seg-attach first.")
    if options.png:
        draw_histogram(all_stats, options.png)


if __name__ == "__main__":
    main()
