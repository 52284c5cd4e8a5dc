"""A corpus of four sentences with tokens, and a model that has learnt next to nothing of them."""

from pathlib import Path

from preprocess import attach
from tests.corpus import SPLITS, binarize
from tests.stock import PLUGIN, TRAINING, run_stock

LINES = [("open %s now", "ouvrir %s maintenant"), ("copy 12 <b> files </b>", "copier 12 <b> fichiers </b>")]
LINES += [("save the file", "enregistrer le fichier"), ("go to {name} with 7", "aller à {name} avec 7")]


def make_guessing(folder: Path) -> tuple[Path, list[str]]:
    """Make a data-bin and a checkpoint; return the data-bin and the options of a translation with this model."""
    text, data = folder / "text", folder / "data-bin"
    text.mkdir()
    for side, lang in enumerate(("en", "fr")):
        for split in SPLITS:
            lines = LINES * 4 if split == "train" else LINES
            (text / f"{split}.{lang}").write_text("".join(f"{pair[side]}\n" for pair in lines))
        words = dict.fromkeys(word for pair in LINES for word in pair[side].split())
        (text / f"dict.{lang}.txt").write_text("".join(f"{word} 1\n" for word in words))
    binarize(text, data)
    attach.main([str(data)])
    sizes = ["--hidden-size", 16, "--embed-dim", 16, "--max-epoch", 1, "--disable-validation", "--lr", 0.001]
    run_stock("train", data, *PLUGIN, *TRAINING, *sizes, "--save-dir", folder / "checkpoints")
    options = ["--path", str(folder / "checkpoints" / "checkpoint_last.pt"), "--cpu", "--beam", "5", "--max-len-a", "0"]
    return data, [*options, "--max-len-b", "25", "--memory-k", "1"]
