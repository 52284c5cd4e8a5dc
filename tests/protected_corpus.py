"""A small corpus with numbers, placeholders, tags and file names, encoded with protection, and a model of it."""

import random
import subprocess
import sys
from pathlib import Path

from preprocess import subword
from tests.attached_corpus import PLUGIN
from tests.stock import TRAINING, run_stock

KINDS = "numbers,placeholders,tags,urls"
THIN = "\u202f"
# The order of the tokens differs between the languages, and a version number keeps its point.
TEMPLATES = [
    ("open page {n} of {m}", "sur {m} pages ouvrir la page {n}"),
    ("write {d} into {f}", "mettre dans {f} le nombre {d}"),
    ("press {t}OK{e} for {p}", "pour {p} cliquer {t}OK{e}"),
    ("version {v} has {n} files", "il y a {n} fichiers dans version {v}"),
    ("delete {p} now", "supprimer {p} maintenant"),
    ("close the page", "fermer la page"),
]


def french(number: str) -> str:
    """Write 1,234.5 as in French."""
    return number.replace(",", THIN).replace(".", ",")


def make_pairs(seed: int, count: int) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        source, target = rng.choice(TEMPLATES)
        tag = rng.choice("bi")
        words = {
            "n": str(rng.randint(2, 900)),
            "m": str(rng.randint(901, 1999)),
            "v": f"{rng.randint(1, 30)}.{rng.randint(0, 9)}",
            "f": rng.choice(["a.txt", "b.odt", "/etc/c.conf", "d.xml"]),
            "p": rng.choice(["%s", "%1$d", "{name}", "${x}"]),
            "t": f"<{tag}>",
            "e": f"</{tag}>",
        }
        decimal = f"{rng.randint(1, 99)},{rng.randint(100, 999)}.{rng.randint(1, 9)}"
        pairs.append((source.format(**words, d=decimal), target.format(**words, d=french(decimal))))
    return pairs


def write_splits(folder: Path, sizes: dict[str, int]) -> None:
    folder.mkdir(parents=True)
    for seed, (split, count) in enumerate(sizes.items()):
        pairs = make_pairs(seed, count)
        for side, lang in enumerate(("en", "fr")):
            (folder / f"{split}.{lang}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")


def encode_splits(text: Path, folder: Path, splits: list[str], symbols: int) -> None:
    """Train subword models `folder`/en.model and fr.model, and encode all splits into `folder`/symbols."""
    for lang in ("en", "fr"):
        train = ["train", "--input", text / f"train.{lang}", "--model", folder / lang, "--vocab-size", symbols]
        subword.main(list(map(str, [*train, "--protect", KINDS])))
        for split in splits:
            files = ["--input", text / f"{split}.{lang}", "--output", folder / "symbols" / f"{split}.{lang}"]
            source = ["--source", text / f"{split}.en", "--source-model", folder / "en.model"] if lang == "fr" else []
            subword.main(list(map(str, ["encode", "--model", folder / f"{lang}.model", *files, *source])))


def binarize_protected(folder: Path) -> Path:
    """Binarize `folder`/symbols into `folder`/data-bin with fairseq-preprocess's own function."""
    from fairseq import options
    from fairseq_cli import preprocess

    arguments = ["-s", "en", "-t", "fr", "--destdir", str(folder / "data-bin"), *prefixes(folder)]
    arguments += ["--srcdict", str(folder / "en.dict.txt"), "--tgtdict", str(folder / "fr.dict.txt")]
    preprocess.main(options.get_preprocessing_parser().parse_args(arguments))
    return folder / "data-bin"


def prefixes(folder: Path) -> list[str]:
    return [f"--{split}pref={folder / 'symbols' / split}" for split in ("train", "valid", "test")]


def attach(folder: Path) -> None:
    """Run seg-attach in another process, because a JVM and forked workers do not mix."""
    command = [Path(sys.executable).with_name("seg-attach"), folder / "data-bin", "--processes", "1", *prefixes(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


def prepare_protected(folder: Path) -> Path:
    """Make text, symbols and an attached data-bin in a folder; return the data-bin."""
    sizes = {"train": 500, "valid": 20, "test": 60}
    write_splits(folder / "text", sizes)
    encode_splits(folder / "text", folder, list(sizes), 330)
    data_bin = binarize_protected(folder)
    attach(folder)
    return data_bin


def train_protected(data_bin: Path, *options: object) -> Path:
    """Train a small model with one retrieved pair per sentence; return its checkpoint."""
    small = ["--hidden-size", 48, "--embed-dim", 48, "--dropout", 0, "--memory-k", 1, "--preset", "recommended"]
    folder = data_bin.with_name("checkpoints")
    output = run_stock("train", data_bin, *PLUGIN, *TRAINING, *small, *options, "--save-dir", folder)
    (data_bin.with_name("train.log")).write_text(output)
    return folder / "checkpoint_last.pt"
