"""The recipes: JRC-Acquis' end to end on the generated corpus, what is skipped and resumed, and wrong input."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairseq_seg import Translator
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.encoding import place_values
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.errors import SegError
from fairseq_seg.recipes.parallel import Pair
from fairseq_seg.recipes.recipe import Recipe, System, pair_of, read_recipe
from fairseq_seg.recipes.runner import ROOT, Runner, logged_updates, outdated
from fairseq_seg.recipes.steps import make_data, train_systems, with_equals
from tests.corpus import make_corpus
from tests.protected_corpus import KINDS, write_splits

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))

# The sample of the recipe, smaller still.
SMALLER = {
    "--corpus examples/demo/text/en-fr.zip --first 1200": "--corpus {folder}/JRC-Acquis.en-fr",
    "symbols = 1000": "symbols = 150",
    "--hidden-size 64 --embed-dim 64": "--hidden-size 16 --embed-dim 16",
    "updates = 60": "updates = 20",
    "-updates 30": "-updates 10",
    'generate = "--max-len-a 0 --max-len-b 30"': 'generate = "--max-len-a 0 --max-len-b 8 --beam 2"',
    'sweep = "SEG paper"': "",  # seven more translations of the test set, which tests/evaluate tries
    '"max_len_b": 20': '"max_len_b": 8',
}
SYSTEMS = ["NMT", "CopyNet state", "CopyNet context", "SEG paper deep", "SEG paper both", "SEG paper K1", "SEG paper"]


def run_recipe(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, EXAMPLES / "recipe.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def small_recipe(folder: Path) -> Path:
    """Write JRC-Acquis' recipe, its sample at the size of the generated corpus."""
    lines = [
        (" ".join(pair.source.split()), " ".join(pair.target.split()))
        for split in ("train", "valid", "test")
        for pair in getattr(make_corpus(), split)
    ]
    for side, language in enumerate(("en", "fr")):
        folder.joinpath(f"JRC-Acquis.en-fr.{language}").write_text("".join(f"{line[side]}\n" for line in lines))
    text = EXAMPLES.joinpath("jrc_acquis/recipe.toml").read_text(encoding="utf-8")
    for full, small in SMALLER.items():
        assert full in text, full
        text = text.replace(full, small.replace("{folder}", str(folder)))
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess]:
    folder = tmp_path_factory.mktemp("jrc")
    done = run_recipe(small_recipe(folder), "--sample")
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, done


def test_from_text_to_the_report(finished):
    folder, done = finished
    report = folder / "output/sample/en-fr/report.html"
    assert str(report) in done.stdout
    names = ["TM", *SYSTEMS, "SEG paper adaptive"]
    for path, split in ((report, "test"), (report.with_name("report-dev.html"), "valid")):
        facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        assert [row["name"] for row in facts["systems"]] == names and facts["split"] == split
        page = path.read_text(encoding="utf-8")
        assert all(name in page for name in names)
    assert report.with_name("figures-dev").joinpath("bins-gain.png").exists()  # as the paper's figure
    # All systems were trained for as long as the recipe says.
    logs = sorted(folder.glob("output/sample/en-fr/*/train.log"))
    assert len(logs) == len(SYSTEMS)
    for log in logs:
        updates = [logged_updates(line) for line in log.read_text(encoding="utf-8").splitlines()]
        assert max(number for number in updates if number is not None) == 20, log


def test_every_guided_system_becomes_a_model_folder(finished):
    folder, done = finished
    own = folder / "output/sample/en-fr"
    made = [own / f"{name.replace(' ', '-')}-1/model" for name in SYSTEMS[1:]]
    assert sorted(own.glob("*/model")) == sorted(made)  # neither NMT nor another way to translate with one of them
    assert all(str(path) in done.stdout for path in made)
    model = ModelFolder.load(made[-1])
    assert (model.source_lang, model.target_lang) == ("en", "fr")
    assert model.options == {"max_len_a": "0", "max_len_b": "8", "beam": "2", "memory_k": "2"}
    assert model.checkpoint_path.read_bytes() == (own / "SEG-paper-1/checkpoint_best.pt").read_bytes()
    for path, language in zip(model.subword_paths, ("en", "fr"), strict=True):
        assert path.read_bytes() == (folder / f"output/sample/data/en-fr/subword.{language}.model").read_bytes()
    source = (folder / "output/sample/data/en-fr/text/test.en").read_text(encoding="utf-8").splitlines()[0]
    with Translator(made[-1], cpu=True) as translator:
        [translation] = translator.translate([source])
    assert translation.source == source and translation.flags == [] and len(translation.pairs) == 2


@pytest.mark.parametrize(
    ("line", "updates"),
    [
        ('2026-11-18 | INFO | train_inner | {"epoch": 1, "loss": "6.1", "num_updates": "50", "lr": "0.001"}', 50),
        ('2026-11-18 | INFO | valid | {"epoch": 1, "valid_loss": "6.1", "valid_num_updates": "60"}', 60),
        ('2026-11-18 | INFO | train_inner | {"epoch": 1, "loss": "6.1", "num_upd', None),
        ("2026-11-18 | INFO | fairseq_cli.train | {'_name': None, 'seed': 1}", None),
        ('{"seg_memory": {"split": "train", "k": 2}}', None),
        ("task: SegTranslationTask", None),
    ],
)
def test_progress_is_read_from_the_log(line: str, updates: int | None):
    assert logged_updates(line) == updates


def test_a_bar_follows_the_log(tmp_path: Path):
    from tqdm import tqdm

    log = tmp_path / "train.log"
    with open(os.devnull, "w") as nowhere, tqdm(total=100, file=nowhere) as bar:
        Runner.advance(bar, log)  # not there yet
        log.write_text("x" * 20_000 + '\n{"num_updates": "50"}\n{"num_updates": "60"}\n{"num_up')
        Runner.advance(bar, log)
        assert bar.n == 60


def test_options_for_a_model_folder():
    options = with_equals("--memory-k 2 --lenpen -1 --cpu --bpe=sentencepiece --path 'a b'")
    assert options == ["--memory-k=2", "--lenpen=-1", "--cpu", "--bpe=sentencepiece", "--path=a b"]


def test_a_finished_recipe_does_nothing(finished):
    folder, _ = finished
    again = run_recipe(folder / "recipe.toml", "--sample")
    assert again.returncode == 0 and "\n$ " not in again.stderr
    assert "report.html" in again.stdout


def test_the_other_direction_shares_the_text(finished):
    folder, _ = finished
    done = run_recipe(folder / "recipe.toml", "--sample", "--directions", "fr-en", "--systems", "NMT")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "fairseq-preprocess" not in done.stderr and "-s fr -t en" in done.stderr
    assert not (folder / "output/sample/fr-en/report.html").exists()


def test_other_options_are_not_mixed_with_what_is_there(finished, tmp_path: Path):
    folder, _ = finished
    other = tmp_path / "recipe.toml"
    other.write_text((folder / "recipe.toml").read_text().replace("--lr 0.001", "--lr 0.002"))
    done = run_recipe(other, "--sample", "--output", folder / "output/sample")
    assert done.returncode != 0 and "NMT-1 was trained with other options" in done.stderr
    assert "Traceback" not in done.stderr


def test_another_way_to_translate_trains_nothing(finished, tmp_path: Path):
    folder, _ = finished
    other = tmp_path / "recipe.toml"
    text = (folder / "recipe.toml").read_text()
    adaptive = "--memory-select adaptive"
    assert text.count(adaptive) == 1
    other.write_text(text.replace(adaptive, f"{adaptive} --memory-min-score 0.4"))
    done = run_recipe(other, "--sample", "--output", folder / "output/sample")
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line.split()[1] for line in done.stderr.split("\n") if line.startswith("$ ")] == ["seg-evaluate"] * 2


def test_protected_text_is_encoded_with_its_source(tmp_path: Path):
    write_splits(tmp_path / "text", {"train": 200, "dev": 10, "test": 10})
    protected = Recipe(["en-fr"], "", 300, "", 1, {}, protect=KINDS)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    corpus, folder = str(tmp_path / "text"), tmp_path / "data"
    _, made = make_data(protected, "en-fr", folder, corpus, Runner(environment))
    data = DataBin(folder / "data-bin")
    place_values(data, {"test": f"{folder / 'symbols' / 'test'}"})
    expected = (tmp_path / "text" / "test.fr").read_text(encoding="utf-8").splitlines()
    target = data.pair("test")[1]
    assert list(data.spellings[1].texts(target)) == expected and sum(target.values.counts) > 10
    # The target's symbols depend on the source's text and model.
    before, mark = made.stat().st_mtime_ns, folder / "encode-test-fr.finished"
    os.utime(tmp_path / "text" / "test.en", ns=(2 * before, 2 * before))
    assert outdated(mark, shlex.split(mark.read_text()), [tmp_path / "text" / "test.en"])
    make_data(protected, "en-fr", folder, corpus, Runner(environment))
    assert mark.stat().st_mtime_ns > before


def test_a_step_runs_again_when_its_command_or_what_it_uses_changed(tmp_path: Path):
    runner, log, used = Runner(dict(os.environ)), tmp_path / "log", tmp_path / "used"
    used.touch()
    for word in ("a", "a", "b", "b"):
        mark = runner.once(tmp_path, "step", ["sh", "-c", f"echo {word} >> {log}"], [used])
    assert log.read_text() == "a\nb\n"
    later = mark.stat().st_mtime_ns + 1
    os.utime(used, ns=(later, later))
    runner.once(tmp_path, "step", ["sh", "-c", f"echo b >> {log}"], [used])
    assert log.read_text() == "a\nb\nb\n"
    with pytest.raises(SegError, match="The step 'step' failed"):
        runner.once(tmp_path, "step", ["false"], [used])
    runner.once(tmp_path, "step", ["sh", "-c", f"echo b >> {log}"], [used])  # as before the failure
    output = tmp_path / "output.gen"
    runner.once(tmp_path, "translate", ["sh", "-c", "echo out; echo said >&2"], output=output)
    assert (output.read_text(), output.with_suffix(".log").read_text()) == ("out\n", "said\n")
    with pytest.raises(SegError, match=f"see its message in {output.with_suffix('.log')}"):
        runner.once(tmp_path, "translate", ["sh", "-c", "echo gone >&2; exit 1"], output=output)


def test_a_training_is_not_mixed_with_another(tmp_path: Path):
    used, begun = tmp_path / "used", tmp_path / "train.begun"
    used.touch()
    begun.write_text("train slowly")
    Runner.check_training(tmp_path, ["train", "fast"], [used])  # it failed before its first checkpoint
    (tmp_path / "checkpoint_last.pt").touch()
    Runner.check_training(tmp_path, ["train", "slowly"], [used])
    with pytest.raises(SegError, match="was trained with other options: remove that folder"):
        Runner.check_training(tmp_path, ["train", "fast"], [used])
    later = begun.stat().st_mtime_ns + 1
    os.utime(used, ns=(later, later))
    with pytest.raises(SegError, match="was trained before its input was rebuilt"):
        Runner.check_training(tmp_path, ["train", "slowly"], [used])


@pytest.mark.parametrize("stopped_by", [SegError("no memory left"), KeyboardInterrupt()])
def test_nothing_begins_after_a_failure_or_ctrl_c(tmp_path: Path, stopped_by: BaseException):
    begun = []

    class Stopped(Runner):
        def train(self, folder: Path, *rest: object) -> None:
            begun.append(folder.name)
            raise stopped_by

    systems = {name: System("") for name in ("A", "B", "C")}
    few = Recipe(["en-fr"], "", 8, "", 1, systems)
    with pytest.raises(type(stopped_by)):
        train_systems(few, "en-fr", tmp_path, tmp_path, tmp_path, list(systems), Stopped({}))
    assert begun[0] == "A-1" and len(begun) < 3


TRAINS_FOR_A_MINUTE = """
import os, sys
from pathlib import Path
import recipe
from fairseq_seg.recipes import runner
command = ["sh", "-c", "echo $$ > begun; mv begun pid; exec sleep 60"]
runner.ROOT = Path.cwd()
recipe.run = lambda args: runner.Runner(dict(os.environ)).train(Path.cwd(), "training", 1, command, 0)
sys.argv = ["recipe.py", "recipe.toml"]
recipe.main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["kill", "ctrl-c"])
def test_no_training_outlives_its_recipe(tmp_path: Path, number: int):
    environment = os.environ | {"PYTHONPATH": str(EXAMPLES)}
    # A shell's background job, as these tests may be, ignores Ctrl-C; the recipe under test is not to inherit that.
    process = subprocess.Popen(
        [sys.executable, "-c", TRAINS_FOR_A_MINUTE],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    pid = tmp_path / "pid"
    while not pid.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(number)
    assert "recipe.py: stopped. Rerun the command to resume." in process.communicate(timeout=30)[1]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_stopped_training_goes_on(finished):
    """The mark of a finished step goes with the training; the checkpoint of the interrupted one stays."""
    folder, _ = finished
    run = folder / "output/sample/en-fr/NMT-1"
    (run / "train.finished").unlink()
    done = run_recipe(folder / "recipe.toml", "--sample", "--systems", "NMT", "--directions", "en-fr")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Loaded checkpoint" in (run / "train.out").read_text(encoding="utf-8")
    assert (run / "train.finished").exists()


def test_a_failed_training_is_said_in_a_sentence(finished, tmp_path: Path):
    folder, _ = finished
    broken = (folder / "recipe.toml").read_text().replace("--optimizer adam", "--optimizer adam --clip-norm wide")
    path = tmp_path / "recipe.toml"
    path.write_text(broken)
    done = run_recipe(path, "--sample", "--output", tmp_path / "output", "--directions", "en-fr", "--systems", "NMT")
    assert done.returncode != 0
    assert "Training en-fr NMT-1 failed" in done.stderr and "wide" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("change", "arguments", "said"),
    [
        (("symbols = 150", "symbol = 150"), [], "unexpected keyword argument 'symbol'"),
        (("symbols = 150", "symbols = "), [], "is not TOML"),
        (('trained_as = "SEG paper"', 'trained_as = "SAG"'), [], "'SAG' is not one of the systems"),
        (("", ""), ["--systems", "SAG"], "no system 'SAG'"),
        (("", ""), ["--directions", "en-xx"], "en-xx is not one of the recipe's directions"),
        (("", ""), ["--directions", "enfr"], "enfr is not a direction"),
        (
            ("longest = {", 'protect = "numbers" # {'),
            ["--directions", "fr-en"],
            "en-fr is protected for one direction: name fr-en in `pairs`, too",
        ),
        (("", ""), ["--corpus", "gone"], "cannot be read: No such file"),
    ],
)
def test_wrong_input(tmp_path: Path, change: tuple[str, str], arguments: list[str], said: str):
    path = small_recipe(tmp_path)
    path.write_text(path.read_text().replace(*change))
    done = run_recipe(path, "--sample", *arguments)
    assert done.returncode != 0 and said in done.stderr and "Traceback" not in done.stderr
    missing = run_recipe(tmp_path / "gone.toml")
    assert missing.returncode != 0 and "cannot be read" in missing.stderr


def test_jrc_acquis_is_split_as_in_the_paper():
    import importlib.util

    spec = importlib.util.spec_from_file_location("jrc_prepare", EXAMPLES / "jrc_acquis/prepare.py")
    prepare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(prepare)
    usual = [Pair(f"article {n}", f"article {n}", "") for n in range(60_000)]
    long = [Pair("a " * 190 + str(n), "b", "") for n in range(600)]
    special = [Pair(f"* * * {'-' * n}", "b", "") for n in range(300)] + [Pair("a", "(" * n, "") for n in range(1, 301)]
    numbers, empty = [Pair("1 - 2", "1 - 2", "")], [Pair("", "b", ""), Pair("a", "", "")]
    splits = prepare.as_the_paper(usual + long + special + numbers + empty)
    assert len(splits["dev"]) == len(splits["test"]) == 3000
    held_out = splits["dev"] + splits["test"]
    # Drawn before anything is left out: as many of each kind as chance gives.
    assert all(20 < sum(pair in set(kind) for pair in held_out) < 120 for kind in (long, special))
    assert not set(special) & set(splits["train"])
    assert set(splits["train"]) == set(usual + long + numbers) - set(held_out)


def test_long_pairs_are_left_out_of_text_and_symbols_alike(tmp_path: Path):
    lengths = {"train": [(2, 3), (3, 4), (4, 1)], "dev": [(9, 9), (1, 1)], "test": [(1, 2)]}
    for split, pairs in lengths.items():
        for side, language in enumerate(("en", "fr")):
            for folder, spell in (("text", "{} x".format), ("symbols", lambda n: " ".join("s" * n))):
                (tmp_path / folder).mkdir(exist_ok=True)
                lines = "".join(f"{spell(pair[side])}\n" for pair in pairs)
                (tmp_path / folder / f"{split}.{language}").write_text(lines)
    command = [sys.executable, EXAMPLES / "shorten.py", tmp_path / "text", tmp_path / "symbols", tmp_path / "short"]
    done = subprocess.run([*map(str, command), "en", "fr", "train=3", "dev=2"], capture_output=True, text=True)
    assert "train: 1 of 3 pairs have at most 3 symbols a side" in done.stdout, done.stderr
    kept = {split: tmp_path.joinpath(f"short/text/{split}.fr").read_text().split("\n")[:-1] for split in lengths}
    assert kept == {"train": ["3 x"], "dev": ["1 x"], "test": ["2 x"]}
    assert tmp_path.joinpath("short/symbols/train.en").read_text() == "s s\n"


def test_a_zip_archive_is_as_good_as_its_files(tmp_path: Path):
    import zipfile

    from parallel_text import pairs_from_text

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, lines in (("b.en", "two\n"), ("a.en", "one\n"), ("a.fr", "un\n"), ("b.fr", "deux\n"), ("README", "")):
            archive.writestr(name, lines)
    found = [(pair.source, pair.target) for pair in pairs_from_text(str(tmp_path / "a.zip"), "en", "fr")]
    assert found == [("one", "un"), ("two", "deux")]
    with pytest.raises(SegError, match="has no text of de"):
        list(pairs_from_text(str(tmp_path / "a.zip"), "en", "de"))


def test_a_recipe_without_a_sample_says_so():
    done = run_recipe(EXAMPLES / "demo/recipe.toml", "--sample")
    assert done.returncode and "has no [sample]" in done.stderr


def test_the_last_step_of_the_ablation_is_the_recommended_preset():
    """Each row adds one thing to the row before."""
    systems = read_recipe(EXAMPLES / "ablation/recipe.toml").systems
    rows = [name for name in systems if name.startswith("plus ") and not systems[name].trained_as]
    options = {name: shlex.split(systems[name].train) for name in ("SEG paper", *rows)}
    values = {name: dict(zip(given[::2], given[1::2], strict=True)) for name, given in options.items()}
    pretrained = rows.index("plus pretrained start")
    for before, after in zip(["SEG paper", *rows], rows, strict=False):
        lost = values[before].keys() - values[after].keys()
        if after == "plus dropout":
            assert lost == {"--dropout"}
        elif after == "plus pretrained start":  # the schedule is that of all systems from the base
            assert all(name.startswith(("--lr-", "--warmup", "--hold", "--decay", "--final")) for name in lost)
        else:
            assert not lost and values[before].items() < values[after].items()
    assert [systems[name].from_base for name in rows] == [n >= pretrained for n in range(len(rows))]
    from fairseq_seg.tasks.presets import PRESETS

    last = {name[2:].replace("-", "_"): value for name, value in values[rows[-1]].items()}
    assert {name: str(value).removesuffix(".0") for name, value in PRESETS["recommended"].items()} == {
        name: last[name] for name in PRESETS["recommended"]
    }


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/recipe.toml")), ids=lambda path: path.parent.name)
def test_every_recipe_is_complete(path: Path):
    read = read_recipe(path)
    assert tomllib.loads(path.read_text(encoding="utf-8"))["systems"].keys() == read.systems.keys()
    for direction in read.directions:
        pair_of(direction, read.pairs)


# Runs a command without a network, in a user namespace of its own.
OFFLINE = ["unshare", "--map-root-user", "--net"]


def test_the_demo_brings_its_text(tmp_path: Path):
    """The demo's data is made without apt, dpkg or a network."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("python", "seg-subword", "fairseq-preprocess"):
        (tools / name).symlink_to(Path(sys.executable).with_name(name))
    code = (
        "from pathlib import Path; from fairseq_seg.recipes import recipe, runner, steps\n"
        f"demo = recipe.read_recipe(Path({str(EXAMPLES / 'demo/recipe.toml')!r}))\n"
        f"run = runner.Runner({{'PATH': {str(tools)!r}, 'OMP_NUM_THREADS': '1'}})\n"
        f"steps.make_data(demo, 'en-fr', Path({str(tmp_path / 'data')!r}), None, run)\n"
    )
    offline = OFFLINE if subprocess.run([*OFFLINE, "true"], capture_output=True).returncode == 0 else []
    done = subprocess.run(
        [*offline, sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(EXAMPLES)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "apt" not in done.stderr
    sizes = {}
    for split in ("train", "dev", "test"):
        lines = [
            (tmp_path / f"data/text/{split}.{side}").read_text(encoding="utf-8").split("\n") for side in ("en", "fr")
        ]
        assert len(lines[0]) == len(lines[1])
        sizes[split] = len(lines[0]) - 1
    assert sizes == {"train": 8000, "dev": 500, "test": 500}
    assert (tmp_path / "data/data-bin/train.en-fr.en.idx").exists()
    readme = (EXAMPLES / "demo/text/README.md").read_text(encoding="utf-8")
    unpack = next(line for line in readme.splitlines() if "-m zipfile -e" in line)
    subprocess.run(unpack.replace("demo-text", str(tmp_path / "unpacked")), shell=True, cwd=ROOT, check=True)
    for path in (tmp_path / "unpacked").iterdir():
        assert path.read_bytes() == (tmp_path / "data/text" / path.name).read_bytes()
    assert f"{sizes['train']:,} pairs for training, {sizes['dev']} for development" in readme


def test_the_demo_takes_your_text(tmp_path: Path):
    asked = []

    class Asked(Runner):
        def once(self, folder: Path, step: str, command: list[str], after: Sequence[Path] = ()) -> Path:
            asked.append(command)
            return folder

    demo = read_recipe(EXAMPLES / "demo/recipe.toml")
    make_data(demo, "en-fr", tmp_path, "mine", Asked({}))
    assert "--subset" in asked[0] and asked[0][-2:] == ["--corpus", "mine"]
    make_data(demo, "en-fr", tmp_path, None, Asked({}))
    assert asked[len(asked) // 2][-1] == str(tmp_path / "text")
