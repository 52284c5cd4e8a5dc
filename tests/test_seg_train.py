"""seg-train: from files of several formats to a model folder, killed and resumed, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.errors import SegError
from fairseq_seg.recipes.files import find_direction, group_files, pairs_of
from fairseq_seg.recipes.train import HELD_OUT, Settings, recommended, train_from_files
from tests.corpus import make_corpus
from tests.memory_files import TMX

PAIRS = [pair for _, pairs in make_corpus().splits() for pair in pairs]
SEG_TRAIN = [sys.executable, "-m", "fairseq_seg.cli.train"]


def write_po(path: Path, pairs: list, header: str = "Language: fr") -> Path:
    messages = [f'msgid "{pair.source}"\nmsgstr "{pair.target}"\n' for pair in pairs]
    path.write_text("\n".join([f'msgid ""\nmsgstr "{header}\\n"\n', *messages]))
    return path


def write_texts(prefix: Path, pairs: list) -> list[Path]:
    paths = []
    for language, side in (("en", "source"), ("fr", "target")):
        paths.append(Path(f"{prefix}.{language}"))
        paths[-1].write_text("".join(f"{getattr(pair, side)}\n" for pair in pairs))
    return paths


def test_from_files_to_a_model_folder_killed_and_resumed(tmp_path: Path):
    # Some come twice, in two formats, the second time in capitals. No held-out source is trained on all the same.
    again = [replace(pair, source=pair.source.upper()) for pair in PAIRS[100:200]]
    files = [write_po(tmp_path / "a.po", PAIRS[:200]), *write_texts(tmp_path / "b", [*again, *PAIRS[200:]])]
    model, work = tmp_path / "model", tmp_path / "model.work"
    command = [*SEG_TRAIN, *map(str, files), "-o", str(model), "--updates", "4"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (work / "en-fr/base/train.begun").exists():
        assert process.poll() is None, process.stderr.read()[-2000:]
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    printed, said = process.communicate(timeout=60)
    assert "seg-train: stopped. Rerun the command to resume." in said and not model.exists()
    assert f"{len(PAIRS) + 100:,} pairs, {len(PAIRS):,} of them usable" in printed
    # The verdict comes before the training.
    assert "verdict: a memory is likely to help" in printed and "fairseq-train" in said

    other = subprocess.run([*command[:-1], "6"], capture_output=True, text=True)
    assert other.returncode == 1 and "model.work has an earlier run with other updates: repeat its" in other.stderr

    held_out = [(work / f"text/{split}.en").read_text().splitlines() for split in ("dev", "test")]
    trained = (work / "text/train.en").read_text().casefold().splitlines()
    assert not {source.casefold() for sources in held_out for source in sources} & set(trained)
    assert len(trained) + sum(map(len, held_out)) == len(PAIRS)

    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    steps = [line.split()[1] for line in done.stderr.split("\n") if line.startswith("$ ")]
    assert steps == ["fairseq-train", "fairseq-train", "seg-model", "seg-evaluate"]
    assert f"{model} is a model folder, en to fr" in done.stdout and not work.exists()
    folder = ModelFolder.load(model)
    assert folder.options == {"memory_k": "2"} and folder.subwords == ("subword.en.model", "subword.fr.model")
    report = json.loads((model / "report.json").read_text())
    assert [system["name"] for system in report["systems"]] == ["TM", "SEG", "SEG without memory"]
    assert len(folder.data.pair("train")[0]) == len(trained) and (model / "report.html").exists()


def test_languages_and_pairs_of_every_format(tmp_path: Path):
    (tmp_path / "a.tmx").write_text(TMX)
    write_po(tmp_path / "b.po", PAIRS[:1], "Language: fr_CA")
    (tmp_path / "c.tsv").write_text("seven\tsept\n")
    unit = '<trans-unit id="1"><source>a <g id="1">b</g></source><target>c <g id="1">d</g></target></trans-unit>'
    (tmp_path / "d.xlf").write_text(
        '<xliff version="1.2"><file source-language="en-US" target-language="fr" original="x" datatype="x"><body>'
        f"{unit}</body></file></xliff>"
    )
    write_texts(tmp_path / "e", PAIRS[1:2])
    files = group_files(sorted(tmp_path.iterdir())[1:])
    assert [file.format for file in files] == ["po", "tsv", "xliff", "text"]
    assert find_direction(files, None, None) == ("en", "fr")
    assert find_direction(files[-1:], "fr", "en") == ("fr", "en")
    tmx = group_files([tmp_path / "a.tmx"])
    assert find_direction(tmx, None, "fr") == ("en", "fr")
    with pytest.raises(SegError, match="several target languages, fr in .*a.tmx, de in .*: choose one with -t"):
        find_direction(tmx, None, None)
    skipped: Counter[str] = Counter()
    texts = [(pair.source, pair.target) for pair in pairs_of([*tmx, *files], "en", "fr", "drop", skipped)]
    assert ("Press F1 & wait.", "Appuyez.") in texts and ("seven", "sept") in texts and ("a b", "c d") in texts
    assert skipped["no text in fr"] == 1
    kept = [pair.source for pair in pairs_of(files, "en", "fr", "codes", skipped)]
    assert "a <g1>b</g1>" in kept
    turned = list(pairs_of(files[-1:], "fr", "en", "drop", skipped))
    assert (turned[0].source, turned[0].target) == (PAIRS[1].target, PAIRS[1].source)


def test_the_recipe_fits_the_data(tmp_path: Path):
    for language, words in (("en", 300), ("fr", 20)):
        lines = [f"word{n % words} and more" for n in range(2000)]
        (tmp_path / f"train.{language}").write_text("".join(f"{line}\n" for line in lines))
    small = recommended(tmp_path, ("en", "fr"), Settings())
    assert small.symbols < 50 and small.updates == small.base_updates == 1000 and not small.protect
    chosen = recommended(tmp_path, ("en", "fr"), Settings(updates=60, symbols=30, arch="seg_transformer"))
    assert (chosen.symbols, chosen.updates) == (30, 30) and "--warmup-updates 3 " in chosen.system_train
    assert HELD_OUT == 1000


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    few = write_texts(tmp_path / "few", PAIRS[:150])
    model = tmp_path / "model"

    def refused(files: list[Path], said: str, output: Path = model, **settings: str) -> None:
        with pytest.raises(SegError, match=said):
            train_from_files(files, output, Settings(**settings))
        assert not model.exists() and not (tmp_path / "model.work").exists()

    refused([], "There are no files to train on")
    refused(few, "Only 150 usable pairs were found in the files, at least 200 are needed")
    refused(few[:1], "few.en: a parallel text is two files")
    refused([tmp_path / "gone.po"], "gone.po does not exist")
    refused([tmp_path], "is a folder: name files")
    (tmp_path / "a.docx").touch()
    refused([tmp_path / "a.docx"], "a.docx is of no known format")
    refused([write_po(tmp_path / "a.po", PAIRS)], "do not say their source language: give it with -s")
    german = write_po(tmp_path / "de.po", PAIRS, "Language: de")
    refused([tmp_path / "a.po", german], "several target languages, fr in .*a.po, de in .*de.po", source="en")
    refused([german], "de.po: it translates to de, not to fr", source="en", target="fr")
    refused(few, "few.en and .*few.fr are not named en and de", source="en", target="de")
    refused(few, "are both en", target="en", source="en")
    refused(few, "-s en-GB is not a language: write it as en or pt_BR", source="en-GB")
    refused(few, "exists and is not a model folder", output=tmp_path)
    (tmp_path / "cut.tmx").write_text(TMX[:900])
    refused([tmp_path / "cut.tmx"], "cut.tmx: line ", source="en", target="fr")
