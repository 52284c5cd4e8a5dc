"""Translate a document sentence by sentence, as a translator works, and give the memory each confirmed translation.

Three translators get the same sentences: without a memory, with the training set as a frozen memory, and with the
training set and a memory that holds the references of all sentences before. Each is a running `fairseq-interactive`;
this program adds to the memory beside it. Prints BLEU of the three and draws it along the document.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sacrebleu.metrics import BLEU
from tqdm import tqdm

import fairseq_seg
from fairseq_seg.store.store import TranslationMemory

CURVE_POINTS = 20


def translator(args: argparse.Namespace, *options: str) -> subprocess.Popen:
    """Starts fairseq-interactive, which answers each line that is written to it."""
    command = [Path(sys.executable).with_name("fairseq-interactive"), args.data_bin, "--path", args.path]
    command += ["-s", args.source, "-t", args.target, "--user-dir", fairseq_seg.__path__[0]]
    command += ["--task", "seg_translation", "--beam", "5", "--buffer-size", "1"]
    command += ["--bpe", "sentencepiece", "--sentencepiece-model", args.spm_source, *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        list(map(str, command)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )


def translate(process: subprocess.Popen, source: str) -> str:
    """Writes one sentence and waits for its translation."""
    process.stdin.write(source + "\n")
    process.stdin.flush()
    translation = None
    for line in process.stdout:
        if line.startswith("D-"):
            translation = line.rstrip("\n").split("\t")[2]
        elif line.startswith("P-"):  # the last line of an answer
            return translation
    raise SystemExit("fairseq-interactive ended: run its command by hand to see why.")


def answers(args: argparse.Namespace, name: str, pairs: list[tuple[str, str]]) -> Iterator[str]:
    """Translates all sentences with one of the three memories; finished translations are not made again."""
    growing = args.output / "growing.mem"
    options = {
        "none": ("--memory-k", 0),
        "frozen": ("--memory-k", args.memory_k),
        "growing": ("--memory-k", args.memory_k, "--memory", f"train,{growing}"),
    }[name]
    memory = None
    if name == "growing":
        shutil.rmtree(growing, ignore_errors=True)
        memory = TranslationMemory.create(
            growing, args.source, args.target, args.data_bin, spm_source=args.spm_source, spm_target=args.spm_target
        )
    process = translator(args, *options)
    for number, (source, reference) in enumerate(tqdm(pairs, desc=name, unit="sentence"), start=1):
        yield translate(process, source)
        if memory is not None:
            memory.add(source, reference, origin="document", unit=str(number))
    process.stdin.close()
    process.wait()


def draw(path: Path, curves: dict[str, list[float]], ends: list[int]) -> None:
    """Draws BLEU of the document up to each point."""
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


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", type=Path, help="folder with document.SOURCE and document.TARGET")
    parser.add_argument("output", type=Path, help="folder for the memory, the translations and the curve")
    parser.add_argument("--data-bin", type=Path, required=True, help="data that the model was trained on")
    parser.add_argument("--path", type=Path, required=True, help="checkpoint of a model trained with memory")
    parser.add_argument("--spm-source", type=Path, required=True, help="its sentencepiece model of the source")
    parser.add_argument("--spm-target", type=Path, required=True, help="its sentencepiece model of the target")
    parser.add_argument("-s", "--source", default="en", metavar="LANG", help="source language (default: en)")
    parser.add_argument("-t", "--target", default="fr", metavar="LANG", help="target language (default: fr)")
    parser.add_argument("--memory-k", type=int, default=2, help="retrieved pairs a sentence (default: 2)")
    args = parser.parse_args()

    sources, references = (
        (args.document / f"document.{language}").read_text(encoding="utf-8").splitlines()
        for language in (args.source, args.target)
    )
    pairs = list(zip(sources, references, strict=True))
    args.output.mkdir(parents=True, exist_ok=True)
    translations = {}
    for name in ("none", "frozen", "growing"):
        file = args.output / f"{name}.{args.target}"
        if not file.exists():
            file.write_text("".join(answer + "\n" for answer in answers(args, name, pairs)), encoding="utf-8")
        translations[name] = file.read_text(encoding="utf-8").splitlines()

    bleu = BLEU()
    seen: set[str] = set()
    new = [i for i, source in enumerate(sources) if source not in seen and not seen.add(source)]
    ends = sorted({-(-len(pairs) * point // CURVE_POINTS) for point in range(1, CURVE_POINTS + 1)})
    curves = {}
    print(f"| memory | all {len(pairs)} sentences | the {len(new)} that repeat no other | last quarter |")
    print("|---|---|---|---|")
    for name, lines in translations.items():

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
