"""Run a recipe: from text to model folders, translations and a report, as its configuration file says.

Every step is a command, printed before it runs, so that you can copy it and change it. A finished step is not repeated
unless its command or its input has changed since, and a stopped training resumes from its last checkpoint: rerun the
command. To start over, remove the output folder.

Commands in a configuration file may name {source} and {target}, the languages; {text}, the folder of plain text;
{data}, the attached data-bin; and, for one system, {own}, a folder that its seeds share; {folder}, one seed's own;
{run} and {checkpoint}, the training it translates with; and {split}, the split to translate.
"""

import argparse
import signal
from dataclasses import replace
from pathlib import Path

from fairseq_seg.errors import SegError, command
from fairseq_seg.recipes.recipe import read_recipe
from fairseq_seg.recipes.run import run_direction
from fairseq_seg.recipes.runner import Runner, environment


@command("recipe.py", stopped="stopped. Rerun the command to resume.")
def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, metavar="RECIPE.toml", help="the configuration file")
    parser.add_argument(
        "--corpus",
        metavar="TEXT",
        help="your text instead of the recipe's: a folder with train, dev and test of each language (train.en ...), or "
        "the beginning of the names of two files (TEXT.en, TEXT.fr), from which dev and test are drawn",
    )
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="default: 'output' beside the configuration file")
    parser.add_argument("--directions", nargs="+", metavar="EN-FR", help="some of the recipe's directions, or yours")
    parser.add_argument(
        "--sample", action="store_true", help="try all of it in minutes, with the small text and sizes of its [sample]"
    )
    parser.add_argument("--base-updates", type=int, metavar="N", help="another length of the base's training")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="train only these and write no report")
    args = parser.parse_args()
    # A plain `kill` stops the trainings as Ctrl-C does: one left behind would write into the folder of the next.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run(args)


def run(args: argparse.Namespace) -> None:
    """Run a recipe as the command line asks for it."""
    recipe = read_recipe(args.recipe, args.sample)
    if args.base_updates is not None:
        recipe = replace(recipe, base_updates=args.base_updates)
    if unknown := set(args.systems or ()) - set(recipe.systems):
        raise SegError(f"The recipe has no system '{min(unknown)}', only {', '.join(recipe.systems)}.")
    output = (args.output or args.recipe.parent / "output" / ("sample" if args.sample else "")).resolve()
    corpus = args.corpus and str(Path(args.corpus).absolute())
    pairs = [*recipe.pairs, *(args.directions if corpus and args.directions else ())]
    runner = Runner(environment())
    for direction in args.directions or recipe.directions or recipe.pairs:
        done = run_direction(recipe, direction, pairs, output, corpus, runner, args.systems)
        for folder in done.models:
            print(f"{folder} is a model folder for seg-explain and Translator.", flush=True)
        for report in done.reports:
            print(f"The report of {direction} is {report}: open it in a browser.", flush=True)


if __name__ == "__main__":
    main()
