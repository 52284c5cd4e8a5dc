"""--memory-cache through fairseq's own commands, and seg-cache: the same translations, and no pass over known pairs."""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from fairseq_seg.cli import cache as command
from fairseq_seg.store.store import TranslationMemory
from tests.attached_corpus import PLUGIN, prepare
from tests.benchmarks import SCRIPTS, TINY, rows
from tests.corpus import SOURCE, TARGET, Corpus, make_corpus
from tests.stock import DECODING, TRAINING, hypotheses, run_process, run_stock, run_stock_until_it_stops, tagged_lines

SIZES = ["--hidden-size", 32, "--embed-dim", 32, "--memory-k", 2, "--max-epoch", 5, "--disable-validation"]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_corpus(seed=3, groups=60, held_out=15)


@pytest.fixture(scope="module")
def data_bin(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(corpus, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def checkpoint(data_bin: Path) -> Path:
    """A model that has begun to read its memory."""
    folder = data_bin.parent / "checkpoints"
    run_stock("train", data_bin, *PLUGIN, *TRAINING, *SIZES, "--save-dir", folder)
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def translate(data_bin: Path, checkpoint: Path):
    """Return a function that runs a stock command with this model and the options it is given."""

    def run(name: str, *options: object, path: object = checkpoint, stdin: str = "", run=run_stock) -> str:
        decoding = [*PLUGIN, "--path", path, "--cpu", "--beam", 2, *DECODING]
        return run(name, data_bin, *decoding, *options, stdin=stdin)

    return run


@pytest.fixture(scope="module")
def without(translate):
    """Return a function: what generate gives with so many pairs a sentence and without a cache."""
    return cache(lambda k: translate("generate", "--memory-k", k))


def typed(corpus: Corpus) -> str:
    return "".join(f"{pair.source}\n" for pair in corpus.test)


def assert_same(left: str, right: str) -> None:
    """The same translations, with the same score to the last digit but one that fairseq prints."""
    one, two = (tagged_lines(output, "H") for output in (left, right))
    assert one.keys() == two.keys()
    for index, [[score, text]] in one.items():
        assert two[index][0][1] == text
        assert float(two[index][0][0]) == pytest.approx(float(score), abs=2e-4)


@pytest.mark.parametrize("k", [1, 4])
def test_generate_twice(translate, without, k: int, tmp_path: Path, passes: list[int]):
    expected = without(k)
    passes.clear()
    options = ["--memory-k", k, "--memory-cache", tmp_path / "cache", "--batch-size", 4]
    cold = translate("generate", *options)
    assert f"memory cache: {tmp_path / 'cache'}, fp32, 0 pairs, 0 bytes of 4.0 GB" in cold
    made = sum(passes)
    assert made > 0
    warm = translate("generate", *options)
    assert f"fp32, {made} pairs" in warm
    assert sum(passes) == made
    for output in (cold, warm):
        assert_same(expected, output)


def test_more_pairs_a_sentence_add_to_what_is_there(translate, without, tmp_path: Path, passes: list[int]):
    option = ["--memory-cache", tmp_path / "cache"]
    expected = without(4)
    passes.clear()
    translate("generate", "--memory-k", 1, *option)
    of_one = sum(passes)
    assert_same(expected, translate("generate", "--memory-k", 4, *option))
    distinct = int(facts(command.describe(tmp_path / "cache"))["pairs"])
    assert 0 < of_one < distinct == sum(passes)


def test_interactive_shares_the_cache(corpus, translate, tmp_path: Path, passes: list[int]):
    cache = ["--memory-cache", tmp_path / "cache", "--memory-cache-type", "fp16"]
    attached = translate("generate", *cache)
    passes.clear()
    live = translate("interactive", *cache, stdin=typed(corpus))
    assert_same(attached, live)
    assert passes == []
    assert_same(live, translate("interactive", *cache, "--buffer-size", 8, "--batch-size", 8, stdin=typed(corpus)))


def test_reference_scores_are_the_same(translate, tmp_path: Path):
    options = ["--score-reference", "--memory-k", 2]
    assert_same(translate("generate", *options), translate("generate", *options, "--memory-cache", tmp_path / "cache"))


def test_generate_as_a_process(translate, tmp_path: Path):
    cold = translate("generate", "--memory-cache", tmp_path / "cache")
    warm = translate("generate", "--memory-cache", tmp_path / "cache", run=lambda *a, stdin: run_process(*a))
    assert_same(cold, warm)
    assert re.search(r"memory cache: .*, fp32, [1-9]\d* pairs", warm)


def test_pairs_added_to_a_memory_are_appended(corpus, data_bin, translate, tmp_path: Path, passes: list[int]):
    sentence = corpus.test[0].source
    with TranslationMemory.create(tmp_path / "own.mem", SOURCE, TARGET, data_bin) as memory:
        memory.add(*(getattr(corpus.train[0], side) for side in ("source", "target")))
        options = ["--memory", tmp_path / "own.mem", "--memory-k", 2, "--memory-cache", tmp_path / "cache"]
        translate("interactive", *options, stdin=f"{sentence}\n{sentence}\n")
        assert passes == [1]
        id = memory.add(sentence, "un le")
        translate("interactive", *options, stdin=f"{sentence}\n")
        assert passes == [1, 1]
        memory.update(id, target="le un")
        changed = translate("interactive", *options, stdin=f"{sentence}\n")
        assert passes == [1, 1, 1]
        assert_same(translate("interactive", *options[:4], stdin=f"{sentence}\n"), changed)


def test_hub(corpus, data_bin, checkpoint, translate, tmp_path: Path, passes: list[int]):
    from fairseq_seg.models.seg_gru import SegGRUModel

    attached = hypotheses(translate("generate", "--memory-cache", tmp_path / "cache"))
    passes.clear()
    options = {"source_lang": SOURCE, "target_lang": TARGET, "memory_cache": str(tmp_path / "cache")}
    hub = SegGRUModel.from_pretrained(checkpoint.parent, checkpoint.name, str(data_bin), **options)
    for _ in range(2):
        found = hub.translate([pair.source for pair in corpus.test], beam=2, max_len_a=0, max_len_b=20)
        assert found == [attached[index][0] for index in range(len(corpus.test))]
    assert passes == []


def test_a_limit_keeps_the_answers(translate, without, tmp_path: Path):
    options = ["--memory-k", 4, "--memory-cache", tmp_path / "cache", "--memory-cache-size", "40K", "--batch-size", 2]
    for _ in range(2):
        assert_same(without(4), translate("generate", *options))
        assert 0 < sum(path.stat().st_size for path in (tmp_path / "cache").glob("[0-9]*")) <= 40 * 1024


def test_a_cut_off_cache_is_used_as_far_as_it_goes(translate, tmp_path: Path, passes: list[int]):
    options = ["--memory-cache", tmp_path / "cache"]
    whole = translate("generate", *options)
    index = tmp_path / "cache" / "1.index"
    with open(index, "r+b") as stream:
        stream.truncate(index.stat().st_size - 5)
    passes.clear()
    again = translate("generate", *options)
    assert again.count("1.index is truncated: its last entries are dropped, and the rest is used") == 1
    assert passes == [1]
    assert_same(whole, again)


def test_what_does_not_fit_is_refused_in_a_sentence(translate, data_bin, checkpoint, tmp_path: Path):
    cache = ["--memory-cache", tmp_path / "cache"]
    translate("generate", *cache)
    other = checkpoint.with_name("checkpoint4.pt")
    for run in ("generate", "interactive"):
        message = run_stock_until_it_stops(run, data_bin, *PLUGIN, "--path", other, "--cpu", *cache, stdin="a line\n")
        assert message == (
            f"{tmp_path / 'cache'} is a cache of another checkpoint, or of this one with other numbers (--fp16): name "
            "another --memory-cache, or remove that folder."
        )
    stop = {"run": run_stock_until_it_stops}
    assert "belongs to one model: leave it out for an ensemble" in translate(
        "generate", *cache, path=f"{checkpoint}:{other}", **stop
    )
    assert "is not a size" in translate("generate", *cache, "--memory-cache-size", "much", **stop)
    assert "is a cache of type fp32, not int8" in translate("generate", *cache, "--memory-cache-type", "int8", **stop)
    assert "is a file, not a memory cache" in translate("generate", "--memory-cache", checkpoint, **stop)
    message = run_stock_until_it_stops("train", data_bin, *PLUGIN, *TRAINING, *SIZES, *cache, "--save-dir", tmp_path)
    assert message == "--memory-cache is for a frozen model: leave it out to train, or add --freeze-translator."
    # Without pairs there is nothing to keep, and nothing to refuse.
    assert "memory cache" not in translate("generate", *cache, "--memory-k", 0, path=other)


# seg-cache


@pytest.fixture
def seg_cache(data_bin: Path, checkpoint: Path, capsys: pytest.CaptureFixture):
    """Return a function that runs seg-cache in this process and returns what it printed."""

    def run(*options: object, path: object = checkpoint) -> str:
        command.main(list(map(str, [data_bin, "--path", path, "--cpu", *options])))
        return capsys.readouterr().out

    return run


def facts(output: str) -> dict[str, str]:
    return dict(re.findall(r"^(.+?): (.+)$", output, re.MULTILINE))


def test_filled_ahead_of_time_no_pair_is_left_to_make(
    corpus, translate, without, seg_cache, tmp_path: Path, passes: list[int]
):
    expected = without(4)
    cache = ["--memory-cache", tmp_path / "cache"]
    pairs = {(pair.source, pair.target) for pair in corpus.train}
    distinct, slots = len(pairs), sum(len(target.split()) + 1 for _, target in pairs)
    row_bytes = 4 * (2 * 32 + 16)
    passes.clear()
    output = seg_cache(*cache, "--pairs", 50, "--max-tokens", 100)
    first = sum(passes)
    assert 0 < first <= 50 and max(passes) <= 100 // 8
    output = seg_cache(*cache)
    assert f"{len(corpus.train):,} pairs, {distinct - first:,} of them not cached yet: " in output
    assert sum(passes) == distinct  # what was there was not made again
    found = facts(output)
    assert (found["pairs"], found["type"], found["bytes per slot"]) == (f"{distinct}", "fp32", f"{row_bytes:,}")
    assert found["bytes per pair"] == f"{slots * row_bytes / distinct + 32:,.0f}"
    assert f"{len(corpus.train):,} pairs, all of them cached already" in seg_cache(*cache)
    passes.clear()
    assert_same(expected, translate("generate", "--memory-k", 4, *cache))
    assert passes == []


def test_pairs_of_a_memory_of_ones_own(corpus, data_bin, translate, seg_cache, tmp_path: Path, passes: list[int]):
    with TranslationMemory.create(tmp_path / "own.mem", SOURCE, TARGET, data_bin) as memory:
        for pair in corpus.train[:10]:
            memory.add(pair.source, pair.target)
    options = ["--memory", tmp_path / "own.mem", "--memory-cache", tmp_path / "cache"]
    assert facts(seg_cache(*options))["pairs"] == "10"
    passes.clear()
    translate("interactive", *options, stdin=typed(corpus))
    assert passes == []
    both = seg_cache("--memory", f"{tmp_path / 'own.mem'},train", *options[2:])
    assert facts(both)["pairs"] == str(len({(pair.source, pair.target) for pair in corpus.train}))


def test_smaller_numbers_are_smaller(seg_cache, tmp_path: Path):
    sizes = {}
    for number_type in ("fp32", "fp16", "int8"):
        options = ["--memory-cache", tmp_path / number_type, "--memory-cache-type", number_type, "--pairs", 20]
        sizes[number_type] = int(facts(seg_cache(*options))["bytes per slot"])
    assert sizes == {"fp32": 4 * 80, "fp16": 2 * 80, "int8": 80 + 2 * 4}


def test_what_would_push_itself_out_is_refused(seg_cache, tmp_path: Path):
    options = ["--memory-cache", tmp_path / "cache", "--memory-cache-size", "100K"]
    with pytest.raises(SystemExit, match=r"leaves room for 93.8 KB, but the pairs take .* raise it, .* with --pairs"):
        seg_cache(*options)
    assert facts(seg_cache(*options, "--pairs", 8))["pairs"] == "8"


def test_stats_and_help_come_at_once(seg_cache, tmp_path: Path, capsys):
    output = seg_cache("--memory-cache", tmp_path / "cache", "--pairs", 3)
    command.main(["--stats", str(tmp_path / "cache")])
    assert facts(capsys.readouterr().out).items() <= facts(output).items()
    program = (
        "import sys; from fairseq_seg.cli.cache import main; main(sys.argv[1:]); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, "--stats", tmp_path / "cache"], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stats", "none"], "none does not exist or is empty: fill it with seg-cache, or by translating"),
        (
            ["DATA", "--path", "none.pt", "--memory-cache", "c"],
            "The checkpoint none.pt does not exist or cannot be read.",
        ),
        (
            ["DATA", "--path", "DATA/dict.en.txt", "--memory-cache", "c"],
            "is not a fairseq checkpoint, or it was cut",
        ),
        (
            ["DATA", "--path", "none.pt"],
            "give --memory-cache PATH",
        ),
        (["nowhere", "--path", "none.pt", "--memory-cache", "c"], "The data folder nowhere does not exist"),
        (["DATA", "--memory-cache", "c"], "is not a model folder (no model.json)"),
    ],
)
def test_bad_command_lines(arguments, message, data_bin, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        command.main([argument.replace("DATA", str(data_bin)) for argument in arguments])
    assert message in str(stop.value)
    assert not list(tmp_path.iterdir())


def test_benchmark(data_bin: Path, checkpoint: Path, corpus: Corpus, tmp_path: Path):
    references = tmp_path / "test.fr"
    references.write_text("".join(f"{pair.target}\n" for pair in corpus.test), encoding="utf-8")
    options = [*TINY, "--pairs", 2, "--path", checkpoint, "--references", references]
    options += ["--json", tmp_path / "figures.json"]
    done = subprocess.run(
        [sys.executable, SCRIPTS / "cache.py", data_bin, *map(str, options)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    table = rows(done.stdout)
    assert [row["cache"] for row in figures["speed"] if row["k"] == 2] == [
        *("no cache", "fp32, empty", "fp32, full", "fp16, full", "int8, full")
    ]
    assert all(len(row["seconds"]) == 2 and min(row["seconds"]) > 0 for row in figures["speed"])
    assert [row["bytes per slot"] for row in figures["size"]] == [10240, 5120, 2568]
    same = {row["cache"]: row["same"] for row in figures["translations"]}
    assert same["none"] == same["fp32"] == 1 and same["fp16"] > 0.9
    assert table["none"][0] == "100.00%" and float(table["int8"][-2]) > 0
