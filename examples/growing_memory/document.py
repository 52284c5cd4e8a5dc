"""Write a document of LibreOffice's help, sentence by sentence in the order of its pages, that no model has seen.

Sentences that the training or validation text holds are left out. What the document repeats stays: it is what a
translator's memory lives on.
"""

import argparse
import sys
from pathlib import Path

HELP = Path(__file__).resolve().parent.parent / "libreoffice_help"
sys.path.insert(0, str(HELP))

import help_pages  # noqa: E402
from prepare import pairs_from_packages  # noqa: E402

from fairseq_seg.recipes.parallel import FULL, is_translation  # noqa: E402


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", help="what the names of the document's pages begin with, e.g. schart/ for charts")
    parser.add_argument("output", type=Path, help="folder for document.en and document.LANG")
    parser.add_argument("--target", default="fr", metavar="LANG", help="target language: fr (default), de or es")
    parser.add_argument("--seen", nargs="*", type=Path, default=[], metavar="FILE", help="English text to leave out")
    args = parser.parse_args()

    seen = {line.casefold() for file in args.seen for line in file.read_text(encoding="utf-8").splitlines()}
    packages = [help_pages.fetch_package(language, HELP / "data") for language in ("en", args.target)]
    pairs = [
        pair
        for pair in pairs_from_packages(*packages)
        if pair.page.startswith(args.pages)
        and is_translation(pair.source, pair.target, FULL)
        and pair.source.casefold() not in seen
    ]
    if not pairs:
        raise SystemExit(f"No page's name begins with {args.pages}, or all its sentences were seen.")
    args.output.mkdir(parents=True, exist_ok=True)
    for language, side in (("en", "source"), (args.target, "target")):
        text = "".join(getattr(pair, side) + "\n" for pair in pairs)
        (args.output / f"document.{language}").write_text(text, encoding="utf-8")
    repeats = len(pairs) - len({pair.source for pair in pairs})
    print(f"{len(pairs)} sentences of {len({pair.page for pair in pairs})} pages, {repeats} of them repeat another")


if __name__ == "__main__":
    main()
