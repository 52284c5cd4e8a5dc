"""seg-guide: give a trained translator a memory, and leave the translator as it is."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from fairseq_seg.cli.options import DefaultsFormatter, add_data_bin, add_subword_models, positive
from fairseq_seg.errors import SegError, command

PLUGIN = Path(__file__).resolve().parents[1]
SPLITS = ["train", "valid", "test"]
BETWEEN = 200  # updates between two checkpoints
# Found on EU law and a localisation memory: the memory's parameters are few and start near what they become.
TRAINING = """--task seg_translation --criterion seg_cross_entropy --freeze-translator --preset recommended
  --generator-weight 0 --optimizer adam --lr-scheduler polynomial_decay --clip-norm 1.0 --num-workers 0
  --memory-cache-type fp16 --best-checkpoint-metric nll_loss --no-epoch-checkpoints --keep-interval-updates 1
  --save-interval 1000000 --validate-interval 1000000 --log-format json --log-interval 10"""


def get_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's own options; fairseq-train takes the rest."""
    parser = argparse.ArgumentParser(
        prog="seg-guide",
        usage="seg-guide CHECKPOINT DATA-BIN [-o MODEL] [option ...]",
        description="Guide a trained translator by a translation memory, in minutes. CHECKPOINT is a Transformer that "
        "fairseq trained, of any size, or a model of this plugin. DATA-BIN is the memory: pairs that are typical of "
        "what you translate, binarized with the checkpoint's dictionaries (fairseq-preprocess --srcdict, --tgtdict), "
        "with some held-out sentences as its validation set. The translator stays exactly as it is. Only the memory "
        "learns: where to look in retrieved pairs, and when to copy. Rerun a stopped command to resume.",
        epilog="All other options are those of fairseq-train: --memory-select adaptive, --cpu, --max-tokens ...",
        formatter_class=DefaultsFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="the trained translator")
    add_data_bin(parser, "the memory; seg-attach runs on it first, unless it has run already")
    parser.add_argument("-o", "--output", type=Path, default=Path("guided"), metavar="MODEL", help="folder to create")
    parser.add_argument("--updates", type=positive, default=600, metavar="N", help="how long the memory learns")
    parser.add_argument("--memory-k", type=positive, default=2, metavar="K", help="retrieved pairs per sentence")
    parser.add_argument("--batch-size", type=positive, default=64, metavar="N", help="sentences per update")
    parser.add_argument("--lr", type=float, default=0.003, metavar="X", help="learning rate, which falls to 0")
    add_subword_models(parser)
    return parser


def arch_of(checkpoint: Path) -> str:
    """Name the --arch that continues a checkpoint; refuse a checkpoint that none can continue."""
    from fairseq_seg.checkpoints import check_checkpoint, load_state
    from fairseq_seg.models.seg_transformer import SegTransformerModel

    check_checkpoint(checkpoint)
    if any(key.startswith("encoder.gru.") for key in load_state(checkpoint)["model"]):
        return "seg_gru"
    SegTransformerModel.sizes_of(str(checkpoint))
    return "seg_transformer"


def train(arguments: list[str], log: Path, updates: int) -> dict[str, Any]:
    """Run fairseq-train with a progress bar; return the figures of its best validation."""
    from tqdm import tqdm

    figures: dict[str, Any] = {}
    said = ""
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore"}
    train = [sys.executable, "-m", "fairseq_cli.train", *arguments]
    process = subprocess.Popen(train, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    assert process.stdout is not None
    try:
        with log.open("a", encoding="utf-8") as copy, tqdm(total=updates, unit=" updates") as bar:
            for line in process.stdout:
                copy.write(line)
                said = line.strip() or said
                _, brace, rest = line.partition("{")
                try:
                    values = json.loads(brace + rest)
                except ValueError:
                    continue
                done = next((int(values[name]) for name in values if name.endswith("num_updates")), bar.n)
                bar.update(done - bar.n)
                if "nll_loss" in values:
                    bar.set_postfix_str(f"{values['nll_loss']} bits per symbol")
                if float(values.get("valid_nll_loss", "inf")) < float(figures.get("valid_nll_loss", "inf")):
                    figures = values
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()
    if process.returncode:
        raise SegError(said if said.endswith(".") else f"The training failed ({said}): all it said is in {log}.")
    return figures


def guide(options: argparse.Namespace, rest: list[str]) -> None:
    """Attach pairs, train the memory and make the model folder."""
    from fairseq_seg.corpus.databin import DataBin
    from fairseq_seg.corpus.model_folder import ModelFolder
    from fairseq_seg.retrieval.attach import Attaching, attach

    if (options.spm_source is None) != (options.spm_target is None):
        raise SegError("Only one subword model is given: give both --spm-source and --spm-target, or neither.")
    if options.output.exists() and ModelFolder.find(options.output) is None:
        raise SegError(f"{options.output} exists and is not a model folder: name another with --output.")
    data = DataBin(options.data, options.source_lang, options.target_lang)
    arch = arch_of(options.checkpoint)
    print("1/3 retrieving similar pairs", flush=True)
    attach(data, SPLITS, Attaching(processes=os.cpu_count() or 1))
    print("2/3 training the memory", flush=True)
    work = options.output.with_name(f"{options.output.name}.training")
    work.mkdir(parents=True, exist_ok=True)
    named = ["--user-dir", PLUGIN, "--arch", arch, "--finetune-from-model", options.checkpoint, "--save-dir", work]
    named += ["-s", data.source_lang, "-t", data.target_lang, "--memory-k", options.memory_k, "--lr", options.lr]
    named += ["--batch-size", options.batch_size, "--max-update", options.updates]
    named += ["--total-num-update", options.updates, "--memory-cache", work / "passes"]
    named += ["--save-interval-updates", BETWEEN]
    named += ["--validate-interval-updates", BETWEEN] if "valid" in data.splits() else ["--disable-validation"]
    found = train([str(data.folder), *TRAINING.split(), *map(str, named), *rest], work / "train.log", options.updates)
    print(f"3/3 making the model folder {options.output}", flush=True)
    best = next(path for name in ("best", "last") if (path := work / f"checkpoint_{name}.pt").exists())
    subwords = None if options.spm_source is None else (options.spm_source, options.spm_target)
    ModelFolder.create(options.output, data, best, subwords, {"memory_k": str(options.memory_k)})
    shutil.rmtree(work)
    if "valid_plain_nll" in found:
        plain, guided = float(found["valid_plain_nll"]), float(found["valid_nll_loss"])
        print(
            f"held-out sentences, bits per symbol: {plain:.2f} without the memory, {guided:.2f} with it "
            f"(a perplexity of {2**plain:.1f} and {2**guided:.1f})"
        )
        if guided >= plain:
            print("The memory does not help here: seg-stats shows how similar its pairs are to the held-out sentences.")
    print(f"Translate with it: fairseq-interactive {options.output} --user-dir {PLUGIN} --task seg_translation "
          f"--path {options.output / 'checkpoint.pt'}")  # fmt: skip


@command("seg-guide", stopped="stopped. Rerun the command to resume.")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    # A plain `kill` stops the training, too: one left behind would write into the folder of the next.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    guide(*get_parser().parse_known_args(arguments))


if __name__ == "__main__":
    main()
