"""The benchmarks run as they stand, on tiny sizes, through the suite; ratios, verdicts and figures are right."""

import io
import json
import re
import subprocess
import sys
import time
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.attached_corpus import PLUGIN, prepare
from tests.benchmarks import SCRIPTS, TINY
from tests.corpus import make_corpus
from tests.stock import TRAINING, run_stock

sys.path.append(str(SCRIPTS))  # where the scripts find each other

import plots
import suite
from profile_generate import REST, Stopwatch
from rounds import interleave, ratios, spread

BROKEN = suite.Benchmark("broken", "translator.py", "", "--rounds many")
BENCHMARKS = ["translator", "pairs", "cache", "transformer", "retrieval", "spark", "own memory", "processes"]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, str]:
    """Return what the suite writes and prints, with one benchmark that fails before all the others."""
    file = tmp_path_factory.mktemp("suite") / "new" / "bench.json"
    benchmarks = [BROKEN, *(part for part in suite.SUITE if part.name in BENCHMARKS)]
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), pytest.raises(SystemExit) as stop:
        patch.setattr(suite, "SUITE", benchmarks)
        suite.main(["--smoke", "--json", str(file)])
    return json.loads(file.read_text()), output.getvalue() + str(stop.value)


def test_a_benchmark_that_fails_does_not_lose_the_others(outcome):
    written, output = outcome
    benchmarks = written["benchmarks"]
    assert "invalid int value: 'many'" in benchmarks["broken"]["failed"]
    assert output.endswith("1 of 9 benchmarks failed: broken.")
    assert {name: part.get("failed") for name, part in benchmarks.items() if name != "broken"} == dict.fromkeys(
        BENCHMARKS
    )


def test_the_table_has_every_line_and_target(outcome):
    written, output = outcome
    lines = {name: values for part in written["benchmarks"].values() for name, values in part.get("ratios", {}).items()}
    without = {name for name in suite.TARGETS if "bm25s" in name and find_spec("bm25s") is None}
    assert suite.TARGETS.keys() - without <= lines.keys()
    cells = {
        cells[0]: cells[1:] for cells in re.findall(r"^\| [\w ]+ \| (.+) \| (.+) \| (.*) \| (.*) \|$", output, re.M)
    }
    for name, values in lines.items():
        assert cells[name][0] == spread(values)
        # The targets of these are stated for more pairs than there are here.
        target = None if name.startswith(("retrieval", "memory")) else suite.TARGETS.get(name)
        assert cells[name][1:] == ((str(target), "yes" if target.reached(values) else "no") if target else ("", ""))


def test_ratios_come_from_the_seconds_of_the_same_round(outcome):
    benchmarks = outcome[0]["benchmarks"]
    translator = benchmarks["translator"]
    assert len(translator["ratios"]) == 2
    for line, values in translator["ratios"].items():
        seconds = translator["seconds"][line]
        assert values == [a / b for a, b in zip(seconds["fairseq lstm"], seconds["seg_gru"], strict=True)]
    plain, one = benchmarks["pairs"]["rows"]
    assert [plain["pair tokens"], one["pair tokens"]] == [0, 8]  # batch x K x length
    lines = benchmarks["pairs"]["ratios"]
    for job, line, upside_down in (
        ("training", "K=1 training, times plain", False),
        ("decoding", "K=1 decoding, of plain", True),
    ):
        pairs = zip(one["seconds"][job], plain["seconds"][job], strict=True)
        assert lines[line] == [b / a if upside_down else a / b for a, b in pairs]
        assert one["peak MB"][job] > 50
    for row in benchmarks["cache"]["speed"][1:]:
        line = f"K={row['k']} decoding, {row['cache']}, of plain"
        assert benchmarks["cache"]["ratios"][line] == ratios(row["plain"], row["seconds"])


def test_retrieval_runs_on_generated_data_and_grows(outcome):
    retrieval = outcome[0]["benchmarks"]["retrieval"]
    assert retrieval["pairs"] == 60
    assert [row["pairs"] for row in retrieval["growth"]] == [30, 60]
    assert all(row["peak MB"] > 20 and min(row["seconds"]) > 0 for row in retrieval["growth"])
    # four sentences with 60 pairs: every pair that shares a symbol is a candidate, so the best one is found
    assert retrieval["ratios"]["best pair found, where its score is >= 0.5"] == [1.0]


def test_spark_is_compared_in_one_process_and_on_a_cluster(outcome):
    spark = outcome[0]["benchmarks"]["spark"]
    assert spark["sentences"] == 4
    assert list(spark["ratios"]) == [
        "Spark local[1], of seg-attach alone",
        "Spark standalone, 1 workers, of seg-attach alone",
    ]
    assert all(row["start_seconds"] > 0 for row in spark["rows"].values())


def test_a_memory_grows_and_is_searched_while_others_write(outcome):
    memory = outcome[0]["benchmarks"]["own memory"]
    assert memory["sizes"] == sorted(memory["sizes"]) and memory["pairs"] == memory["sizes"][-1] > 250
    assert all(min(values) > 0 for values in memory["ratios"].values())
    assert memory["median ms"].keys() == {"alone", "crowded"}


def test_processes_hold_the_data_as_mapped_files(outcome):
    without, attached = outcome[0]["benchmarks"]["processes"]["rows"]
    for row in (without, attached):
        assert 0 < row["share"] <= row["mapped"] < row["own"] < row["resident"]
    assert [without["k"], attached["k"]] == [0, 16]


def test_interleave_leaves_out_the_first_round():
    ticks = iter([0, 9, 10, 12, 20, 21])  # a round that does not count is not stopped
    turns = []
    jobs = {name: lambda name=name: turns.append(name) for name in "ab"}
    assert interleave(jobs, 1, lambda: next(ticks)) == {"a": [2], "b": [1]}
    assert turns == ["a", "b", "a", "b"]


def test_spread_and_verdicts():
    values = ratios([2.0, 9.0, 8.0], [1.0, 3.0, 8.0])
    assert values == [2, 3, 1]
    assert spread(values) == "2.00 (1.00 to 3.00)"
    assert spread([0.25]) == "0.25"
    assert suite.Target(2).reached(values) and not suite.Target(2.1).reached(values)
    assert suite.Target(2, most=True).reached(values) and not suite.Target(1.9, most=True).reached(values)


def test_a_target_that_is_stated_for_more_pairs_is_left_out():
    line = "retrieval, of pyserini batch_search and reading"
    small, large = ({"retrieval": {"pairs": pairs, "ratios": {line: [3.5]}}} for pairs in (20_000, 324_000))
    assert suite.table(small).endswith(f"| {line} | 3.50 |  |  |")
    assert suite.table(large).endswith(f"| {line} | 3.50 | at least 3 | yes |")


def test_a_folder_that_is_not_there_is_refused(capsys):
    with pytest.raises(SystemExit):
        suite.main(["no-such-folder"])
    assert "no-such-folder is not a folder" in capsys.readouterr().err


def measured_row(k: int, length: int) -> dict:
    jobs = ("training", "decoding")
    return {
        "k": k,
        "length": length,
        "seconds": {job: [1.0 + k, 2.0 + k] for job in jobs},
        "peak MB": dict.fromkeys(jobs, 5),
    }


def test_plots_draw_what_was_measured(tmp_path: Path):
    growth = [{"pairs": size, "sentences": 10, "seconds": [1.0, 2.0], "peak MB": 9} for size in (10, 20)]
    benchmarks = {
        "growth with K": {"rows": [measured_row(k, 30) for k in (0, 1, 2)]},
        "15 symbols": {"rows": [measured_row(k, 15) for k in (0, 1)]},
        "60 symbols": {"failed": "no memory left"},
        "retrieval": {"growth": growth},
    }
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"benchmarks": benchmarks}))
    done = subprocess.run([sys.executable, SCRIPTS / "plots.py", file, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.glob("*.png")} == {"growth-k.png", "growth-memory.png"}
    benchmarks["60 symbols"] = {"rows": [measured_row(k, 60) for k in (0, 1)]}
    curves = plots.growths(benchmarks)
    assert curves["growth-length"][2]["training"] == [(15, [2.0, 3.0]), (30, [2.0, 3.0]), (60, [2.0, 3.0])]
    assert curves["growth-memory"][2]["retrieval"] == [(0.01, [100.0, 200.0]), (0.02, [100.0, 200.0])]


def test_stopwatch_gives_a_part_what_no_inner_part_took():
    class Work:
        def inner(self) -> None:
            burn(0.1)

        def outer(self) -> None:
            burn(0.05)
            self.inner()
            self.inner()

    def burn(seconds: float) -> None:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    stopwatch = Stopwatch()
    stopwatch.watch(Work, "inner", "inner")
    stopwatch.watch(Work, "outer", "outer")
    Work().outer()
    burn(0.02)
    stopwatch.lap()
    assert stopwatch.seconds["inner"] == pytest.approx(0.2, abs=0.02)
    assert stopwatch.seconds["outer"] == pytest.approx(0.05, abs=0.02)
    assert stopwatch.seconds[REST] == pytest.approx(0.02, abs=0.015)
    assert stopwatch.calls == {"inner": 2, "outer": 1}


def test_profile_of_a_training_step(tmp_path: Path):
    command = [sys.executable, SCRIPTS / "profile_train.py", *TINY, "--json", tmp_path / "kinds.json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    steps = json.loads((tmp_path / "kinds.json").read_text())["milliseconds"]
    assert steps.keys() == {"0", "1"} and all(min(step.values()) > 0 for step in steps.values())


def test_profile_of_generate(tmp_path: Path):
    data_bin = prepare(make_corpus(seed=3, groups=10, held_out=3), tmp_path)
    run_stock("train", data_bin, *PLUGIN, *TRAINING, "--max-update", 1, "--save-dir", tmp_path)
    options = ["--memory-k", "2", "--beam", "2", "--batch-size", "8", "--json", tmp_path / "parts.json"]
    command = [sys.executable, SCRIPTS / "profile_generate.py", tmp_path / "checkpoint_last.pt", data_bin, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parts = {row["part"]: row for row in json.loads((tmp_path / "parts.json").read_text())["parts"]}
    assert sum(row["share"] for row in parts.values()) == pytest.approx(1)
    assert parts["step: memory read"]["seconds"] > 0 and parts["memory: decoder pass over the pairs"]["seconds"] > 0
    assert "memory: cache" not in parts
