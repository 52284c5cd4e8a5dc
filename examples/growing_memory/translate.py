"""Translate a document sentence by sentence, as a translator works, and give the memory each confirmed translation.

The same model gets the same sentences three times: without a memory, with the training set as a frozen memory, and with
the training set and a memory of the references of all sentences before. Prints BLEU of the three and draws it along the
document. Finished translations are kept: rerun the command to resume.
"""

import argparse
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU
from tqdm import tqdm

from fairseq_seg import Translator
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.errors import SegError, command
from fairseq_seg.files import read_text_file, write_whole
from fairseq_seg.store.store import TranslationMemory

CURVE_POINTS = 20
MEMORIES = ("none", "frozen", "growing")


def translate(
    model: ModelFolder, name: str, pairs: list[tuple[str, str]], memory_k: int, output: Path
) -> Iterator[str]:
    """Translate all sentences with one of `MEMORIES`."""
    path = output / "growing.mem"
    options: dict[str, dict[str, Any]] = {"none": {"memory_k": 0}, "frozen": {"memory_k": memory_k}}
    options["growing"] = {"memory_k": memory_k, "memory": f"train,{path}"}
    with ExitStack() as stack:
        memory = None
        if name == "growing":
            shutil.rmtree(path, ignore_errors=True)
            home = model.source_lang, model.target_lang, model.path
            memory = stack.enter_context(TranslationMemory.create(path, *home, *(model.subword_paths or ())))
        translator = stack.enter_context(Translator(model.path, **options[name]))
        for number, (source, reference) in enumerate(tqdm(pairs, desc=name, unit=" sentences"), start=1):
            [translation] = translator.translate([source])
            yield translation.text
            if memory is not None:
                memory.add(source, reference, origin="document", unit=str(number))


def draw(path: Path, curves: dict[str, list[float]], ends: list[int]) -> None:
    """Draw BLEU of the document up to each point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name, curve in curves.items():
        axes.plot(ends, curve, label=f"{name} memory" if name != "none" else "no memory")
    axes.set(xlabel="sentences translated", ylabel="BLEU up to here", xlim=(0, ends[-1]))
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


@command("translate.py", stopped="stopped. Finished translations are kept: rerun the command to resume.")
def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", type=Path, help="folder with document.SOURCE and document.TARGET")
    parser.add_argument("output", type=Path, help="folder for the memory, the translations and the curve")
    parser.add_argument("--model", type=Path, required=True, help="folder of a model trained with memory (seg-model)")
    parser.add_argument("--memory-k", type=int, default=2, help="retrieved pairs per sentence (default: 2)")
    args = parser.parse_args()

    model = ModelFolder.load(args.model)
    languages = model.source_lang, model.target_lang
    sources, references = (read_text_file(args.document / f"document.{language}") for language in languages)
    if len(sources) != len(references):
        raise SegError(f"{args.document} has {len(sources)} sentences and {len(references)} references.")
    pairs = list(zip(sources, references, strict=True))
    args.output.mkdir(parents=True, exist_ok=True)
    translated = {}
    for name in MEMORIES:
        file = args.output / f"{name}.{model.target_lang}"
        if not file.exists():
            with write_whole(file) as stream:
                for line in translate(model, name, pairs, args.memory_k, args.output):
                    stream.write(f"{line}\n".encode())
        translated[name] = read_text_file(file)

    bleu = BLEU()
    new = list({source: row for row, source in reversed(list(enumerate(sources)))}.values())
    ends = sorted({-(-len(pairs) * point // CURVE_POINTS) for point in range(1, CURVE_POINTS + 1)})
    curves = {}
    print(f"| memory | all {len(pairs)} sentences | the {len(new)} that repeat no other | last quarter |")
    print("|---|---|---|---|")
    for name, lines in translated.items():

        def score(rows: range | list[int], lines: list[str] = lines) -> float:
            return bleu.corpus_score([lines[i] for i in rows], [[references[i] for i in rows]]).score

        curves[name] = [score(range(end)) for end in ends]
        last = range(len(pairs) * 3 // 4, len(pairs))
        print(f"| {name} | {score(range(len(pairs))):.1f} | {score(new):.1f} | {score(last):.1f} |")
    print(f"\nBLEU, {bleu.get_signature()}")
    draw(args.output / "curve.png", curves, ends)
    print(f"The curve is in {args.output / 'curve.png'}.")


if __name__ == "__main__":
    main()
