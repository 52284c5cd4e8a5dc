"""The field in one table: systems of other people's in a recipe, and what each method costs."""

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.split import load_split
from fairseq_seg.recipes.comparison import evaluate
from fairseq_seg.recipes.recipe import read_recipe
from fairseq_seg.recipes.runner import Runner
from fairseq_seg.recipes.steps import train_systems
from tests.corpus import SOURCE, TARGET
from tests.stock import ROOT

sys.path.insert(0, str(ROOT / "examples" / "field"))
import table  # noqa: E402  (the examples are scripts, not a package)

RECIPE = ROOT / "examples/field/recipe.toml"


class Asked(Runner):
    """Runs nothing: what would run is recorded, and finished."""

    def __init__(self):
        super().__init__({})
        self.commands: dict[str, list[str]] = {}

    def once(self, folder: Path, step: str, parts: Sequence[object], after=(), output: Path | None = None) -> Path:
        assert all(path.exists() for path in after), after
        self.commands[f"{folder.name} {step}"] = list(map(str, parts))
        if output is not None:
            output.write_bytes(b"S-0\tsource\nH-0\t-1.0\ttarget\n")
        mark = folder / f"{step}.finished"
        mark.touch()
        return mark

    def train(self, folder: Path, name: str, updates: int, command: list[str], position: int) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "train.finished").touch()
        self.commands[f"{folder.name} train"] = command


def value(command: list[str], option: str) -> str:
    """Return the last value of an option, which fairseq takes."""
    return command[len(command) - 1 - command[::-1].index(option) + 1]


def test_systems_of_other_kinds_in_a_recipe(tmp_path: Path):
    read, runner = read_recipe(RECIPE), Asked()
    made, text = tmp_path / "made", tmp_path / "text"
    made.touch()
    data = tmp_path / "data-bin"
    train_systems(read, "en-fr", data, made, tmp_path, list(read.systems), runner)
    evaluate(read, "en-fr", "test", data, made, text, tmp_path, runner)
    trainings = {name: command for name, command in runner.commands.items() if name.endswith(" train")}
    assert len(trainings) == 1 + 2 * sum(not system.trained_as for system in read.systems.values())
    # Every system has the same number of updates, whatever it starts from.
    for name, command in trainings.items():
        from_base = "--finetune-from-model" in command
        scratch = name.startswith(("fuzzy-repair", "SEG-paper"))
        assert name == "base train" or from_base != scratch
        updates = int(value(command, "--max-update"))
        assert updates == {True: 1000, False: 5000}[from_base] if name != "base train" else updates == 4000
        assert ("--total-num-update" in command) == from_base  # whose schedule is not that of the others
    own = tmp_path / "fuzzy-repair-data"
    augmented = runner.commands[f"{tmp_path.name} {own.name}"]
    assert augmented[1:4] == ["examples/peers/fuzzy_repair.py", str(data), str(own)]
    assert all(runner.commands[f"fuzzy-repair-{seed} train"][1] == str(own) for seed in (1, 2))
    translate = runner.commands["fuzzy-repair-2 translate-test"]
    assert translate[1] == str(own) and value(translate, "--path") == str(
        tmp_path / "fuzzy-repair-2/checkpoint_last.pt"
    )
    # Its sources are not those of the split.
    assert (tmp_path / "fuzzy-repair-1/test.gen").read_bytes() == b"H-0\t-1.0\ttarget\n"
    assert b"S-0" in (tmp_path / "kNN-MT-vanilla-1/test.gen").read_bytes()
    for seed in (1, 2):  # both use the datastore of the translator of that seed
        for kind in ("vanilla", "adaptive"):
            command = runner.commands[f"kNN-MT-{kind}-{seed} translate-test"]
            assert value(command, "--knn") == kind
            assert value(command, "--knn-store") == str(tmp_path / f"NMT-{seed}/knn")
            assert runner.commands[f"kNN-MT-{kind}-{seed} fit"][4] == str(tmp_path / f"NMT-{seed}/knn")
    scored = runner.commands[f"{tmp_path.name} evaluate"]
    place = scored.index("TM or NMT")
    assert scored[place + 1 : place + 3] == [str(tmp_path / f"TM-or-NMT-{seed}/test.gen") for seed in (1, 2)]
    assert scored[scored.index("NMT") + 1] == shlex.join([str(tmp_path / "NMT-1/checkpoint_last.pt")]) + " --memory-k 0"


def test_the_sample_trains_less():
    full, sample = read_recipe(RECIPE), read_recipe(RECIPE, sample=True)
    assert sample.systems == full.systems and sample.updates < full.updates
    with pytest.raises(SegError, match="has no .sample."):
        read_recipe(ROOT / "examples/demo/recipe.toml", sample=True)


@pytest.fixture(scope="module")
def output(bpe_data_bin: Path, data_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the recipe leaves behind, but for the trainings."""
    folder = tmp_path_factory.mktemp("field")
    shared, own = folder / "data/en-fr", folder / "en-fr"
    ignored = shutil.ignore_patterns("*.memory", "*.lucene")
    shutil.copytree(bpe_data_bin, shared / "data-bin", ignore=ignored)
    shutil.copytree(data_bin.with_name("text"), shared / "text")
    for language in (SOURCE, TARGET):
        shutil.copy(bpe_data_bin.with_name("joint.model"), shared / f"subword.{language}.model")
    attach = Path(sys.executable).with_name("seg-attach")
    subprocess.run([attach, shared / "data-bin", "-s", SOURCE, "-t", TARGET], check=True, capture_output=True)
    (own / "NMT-1/knn").mkdir(parents=True)
    (own / "NMT-1/knn/datastore.json").write_text(json.dumps({table.NEW_PAIRS: 12.345, table.BYTES: 6789.4}))
    (own / "TM-or-NMT-1").mkdir()
    (own / "TM-or-NMT-1/threshold.json").write_text(json.dumps({"threshold": 0.9}))
    names = ("TM", "NMT", "TM or NMT", "kNN-MT vanilla", "SEG recommended", "SEG recommended adaptive")
    systems = [{"name": name, "bleu": [10.0, 20.0], "chrf": [30.0], "p_value": 0.0005, "speed": 40.0} for name in names]
    for row in systems[0], systems[2]:
        row["speed"] = None
    report = {"systems": systems, "baseline": "NMT", "split": "test", "references": str(shared / "text/test.fr")}
    report["quality"] = [{"name": name, "ter": 55.55} for name in names]
    (own / "report.json").write_text(json.dumps(report))
    return folder


def test_the_table_of_the_field(output: Path):
    read = read_recipe(RECIPE)
    lines = table.table(read, output, "en-fr").split("\n")
    rows = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[1:] for line in lines}
    assert rows["NMT"] == ["15.0", "≤ 0.001", "30.0", "55.5", "40.0", "–", "0"]
    assert rows["kNN-MT vanilla"][4:] == ["40.0", "12.35", "6,789"]
    memory = json.loads((output / "en-fr/costs.json").read_text())
    assert 0 < memory[table.NEW_PAIRS] < 60 and 50 < memory[table.BYTES] < 5000
    for name in ("TM", "TM or NMT", "SEG recommended", "SEG recommended adaptive"):
        assert rows[name][5:] == [f"{memory[table.NEW_PAIRS]:.2f}", f"{memory[table.BYTES]:,.0f}"]
    assert rows["TM"][4] == "–"
    best = load_split(output / "data/en-fr/data-bin", "test").best
    assert 0 < (best >= 0.9).sum() < len(best)
    assert float(rows["TM or NMT"][4]) == pytest.approx(40 / (best < 0.9).mean(), abs=0.1)
    before = (output / "en-fr/costs.json").stat().st_mtime_ns
    table.table(read, output, "en-fr")
    assert (output / "en-fr/costs.json").stat().st_mtime_ns == before


def test_a_table_needs_a_report(tmp_path: Path):
    with pytest.raises(SegError, match="has no report.json: run examples/recipe.py"):
        table.table(read_recipe(RECIPE), tmp_path, "en-fr")
