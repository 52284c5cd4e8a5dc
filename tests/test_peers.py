"""The methods of others in examples/peers against literal versions: threshold, fuzzy repair and nearest neighbours."""

import importlib.util
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fairseq_seg import Translator
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.split import load_split
from fairseq_seg.source.pair_source import Attached
from tests.corpus import SOURCE, TARGET
from tests.stock import DECODING, ROOT, run_stock, run_stock_until_it_stops, tagged_lines

PEERS = ROOT / "examples" / "peers"
SCRIPTS = Path(sys.executable).parent
sys.path.insert(0, str(PEERS))
import fuzzy_repair  # noqa: E402  (the examples are scripts, not a package)
import threshold  # noqa: E402


@pytest.fixture(scope="module")
def attached(data_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    ignored = shutil.ignore_patterns("*.memory", "*.lucene")
    folder = shutil.copytree(data_bin, tmp_path_factory.mktemp("peers") / "data-bin", ignore=ignored)
    subprocess.run([SCRIPTS / "seg-attach", folder, "-s", SOURCE, "-t", TARGET], check=True, capture_output=True)
    return folder


def run(script: str, *arguments: object, fails: bool = False) -> str:
    """Run a script of the folder; return what it printed, or its message."""
    command = [sys.executable, PEERS / script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert bool(done.returncode) == fails and "Traceback" not in done.stderr, done.stderr
    return done.stderr.strip().splitlines()[-1] if fails else done.stdout


# ------------------------------------------------------------- TM above a threshold


@pytest.mark.parametrize("seed", range(20))
def test_the_threshold_leaves_the_fewest_edits(seed: int):
    rng = np.random.default_rng(seed)
    best = rng.integers(-1, 6, 30) / 5  # many equal scores, some sentences without any pair
    best[best < 0] = -1
    copied, translated = rng.integers(0, 9, 30), rng.integers(0, 6, 30)

    def effort(bound: float) -> int:
        return sum(c if score >= bound else t for score, c, t in zip(best, copied, translated, strict=True))

    bounds = [*sorted({score for score in best if score >= 0}), math.inf]
    found = threshold.tune(best, copied, translated)
    assert found in bounds and effort(found) == min(map(effort, bounds))
    assert found == max(bound for bound in bounds if effort(bound) == effort(found))


def test_nothing_is_copied_where_no_pair_helps():
    assert threshold.tune(np.array([0.9, 0.3, -1]), np.array([5, 5, 5]), np.array([1, 1, 1])) == math.inf
    assert threshold.choose(np.array([0.9, -1]), ["a", ""], ["b", "c"], math.inf) == ["b", "c"]
    assert threshold.choose(np.array([0.9, 0.4]), ["a", "d"], ["b", "c"], 0.9) == ["a", "c"]


def test_threshold_from_the_command_line(attached: Path, trained: Path, tmp_path: Path):
    found, nmt = tmp_path / "threshold.json", trained / "checkpoint_last.pt"
    assert "holds no threshold" in run("threshold.py", "translate", attached, nmt, found, fails=True)
    short = ["--cpu", *DECODING, "--beam", 2]
    tuned = json.loads(run("threshold.py", "tune", attached, nmt, found, *short))
    assert tuned == json.loads(found.read_text())
    assert tuned["effort"] <= min(tuned["effort of NMT"], tuned["effort of TM"])
    split = load_split(attached, "test")
    for bound, expected in ((0.0, split.pair_targets), (math.inf, None)):
        found.write_text(json.dumps({"threshold": bound}))
        lines = run("threshold.py", "translate", attached, nmt, found, *short).splitlines()
        assert len(lines) == len(split) and (lines == split.pair_targets) == (expected is not None)
    for path in attached.glob("valid.en-fr.fr.*"):
        path.rename(path.with_name(f"kept-{path.name}"))
    assert "fr.idx is missing" in run("threshold.py", "tune", attached, nmt, found, *short, fails=True)
    for path in attached.glob("kept-*"):
        path.rename(path.with_name(path.name.removeprefix("kept-")))


def test_edits_are_of_words():
    assert threshold.edits("the old house", "the new houses stand") == 3


# -------------------------------------------------------------------- fuzzy repair


def test_the_augmented_corpus_is_that_of_the_paper(attached: Path, tmp_path: Path):
    """Row by row, in words; one word of nine may differ, not one of eight."""
    bound, data = 0.88, DataBin(attached)
    fuzzy_repair.write(data, tmp_path / "augmented", bound)
    written = DataBin(tmp_path / "augmented")
    spelled = {folder: folder.spellings for folder in (data, written)}

    def text(folder: DataBin, side: int, ids: np.ndarray) -> str:
        return " ".join(spelled[folder][side].read(ids))

    memory = [text(data, 1, target) for target in data.pair("train")[1]]
    for split in ("train", "valid", "test"):
        expected: list[tuple[str, str]] = []
        extra: list[tuple[str, str]] = []
        ranked = Attached(data, split, Selection(1)).ranked
        for row, (x, y) in enumerate(zip(*data.pair(split), strict=True)):
            source, target = text(data, 0, x), text(data, 1, y)
            ids, scores, _ = ranked[row]
            has_pair = len(ids) and scores[0] >= np.float32(bound)
            repaired = f"{source} @@@ {memory[ids[0]]}" if has_pair else None
            expected.append((source if split == "train" or repaired is None else repaired, target))
            if repaired is not None and split == "train":
                extra.append((repaired, target))
        found = [(text(written, 0, x), text(written, 1, y)) for x, y in zip(*written.pair(split), strict=True)]
        assert found == expected + extra
        augmented = sum("@@@" in source for source, _ in found)
        assert 0 < augmented < len(found)


def test_fuzzy_repair_needs_the_pairs(data_bin: Path, tmp_path: Path):
    with pytest.raises(SegError, match="run seg-attach with the same -s and -t first"):
        fuzzy_repair.write(DataBin(data_bin), tmp_path / "augmented", 0.5)
    assert not (tmp_path / "augmented").exists()


# ---------------------------------------------------------------- nearest neighbours

needs_faiss = pytest.mark.skipif(importlib.util.find_spec("faiss") is None, reason="the extra `peers` is missing")


def literal_neighbours(distances, symbols, k: int, temperature: float, size: int) -> list[float]:
    """p_k(y) of every symbol, one neighbour at a time."""
    weights = [math.exp(-d / temperature) for d in distances[:k]]
    return [sum(w for w, v in zip(weights, symbols[:k], strict=True) if v == y) / sum(weights) for y in range(size)]


@needs_faiss
def test_the_mixtures_are_those_of_the_papers():
    from knn_mt.mixture import MetaK, Vanilla, mix, target_probability

    torch.manual_seed(1)
    rows, k, size, temperature = 5, 8, 6, 2.0
    distances = torch.rand(rows, k).mul(9).sort(-1).values
    symbols = torch.randint(size, (rows, k))
    p = torch.softmax(torch.randn(rows, size), -1)
    network = MetaK(k, temperature)
    assert network.choices == [0, 1, 2, 4, 8]
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    vanilla, adaptive = (
        mix(p.log(), combine(distances, symbols), symbols).exp() for combine in (Vanilla(4, temperature, 0.3), network)
    )
    w1, b1, w2, b2 = (x.detach().numpy() for x in network.parameters())
    for row in range(rows):
        d, v = distances[row].tolist(), symbols[row].tolist()
        near = literal_neighbours(d, v, 4, temperature, size)
        expected = [0.3 * a + 0.7 * b for a, b in zip(near, p[row].tolist(), strict=True)]
        np.testing.assert_allclose(vanilla[row], expected, atol=1e-5)
        features = [x / temperature for x in d] + [len(set(v[: n + 1])) for n in range(k)]
        scores = np.exp(w2 @ np.tanh(w1 @ features + b1) + b2)
        chosen = scores / scores.sum()
        expected = chosen[0] * p[row].numpy()
        for choice, share in zip((1, 2, 4, 8), chosen[1:], strict=True):
            expected = expected + share * np.array(literal_neighbours(d, v, choice, temperature, size))
        np.testing.assert_allclose(adaptive[row].detach(), expected, atol=1e-5)
    target = torch.arange(rows)
    alone = target_probability(p[target, target], network(distances, symbols), symbols, target)
    torch.testing.assert_close(alone, adaptive[target, target])


@needs_faiss
def test_search_finds_the_nearest_keys():
    from knn_mt.datastore import Datastore, usual_index

    rng = np.random.default_rng(1)
    keys, queries = (rng.normal(size=(count, 8)).astype(np.float32) for count in (300, 7))
    symbols = rng.integers(50, size=300)
    store = Datastore.learn(keys, 300)
    store.add(keys[:200], symbols[:200])
    store.add(keys[200:], symbols[200:])  # pairs that came later
    distances, found = store.search(queries, 4)
    brute = ((queries[:, None] - keys[None]) ** 2).sum(-1)
    nearest = np.argsort(brute, axis=1)[:, :4]
    np.testing.assert_allclose(distances, np.take_along_axis(brute, nearest, 1), rtol=1e-4)
    assert (found == symbols[nearest]).all()
    assert usual_index(300, 8) == "Flat" and usual_index(850_000, 256) == "IVF4096,PQ64"
    assert usual_index(40_000, 90) == "IVF1024,PQ45"


@pytest.fixture(scope="module")
def store(data_bin: Path, trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("knn") / "store"
    run("knn.py", data_bin, trained / "checkpoint_last.pt", folder, "--cpu", "--index", "Flat")
    return folder


def generate(data_bin: Path, store: Path, checkpoint: Path, *options: object) -> list[object]:
    import knn_mt.tasks.knn_translation  # noqa: F401, which a --user-dir that is imported already does not import

    plugin = ["--user-dir", PEERS / "knn_mt", "--task", "knn_translation", "--path", checkpoint, "--cpu"]
    return [data_bin, *plugin, "--knn-store", store, *DECODING, "--beam", 3, *options]


@needs_faiss
@pytest.mark.parametrize("kind", ["vanilla", "adaptive"])
def test_beam_search_scores_are_those_of_brute_force(kind: str, data_bin: Path, trained: Path, store: Path):
    """Every hypothesis scored again: all keys of the training set compared with each state, in numpy."""
    import knn
    from knn_mt.tasks.knn_translation import load_combination

    checkpoint = trained / "checkpoint_last.pt"
    output = run_stock("generate", *generate(data_bin, store, checkpoint, "--knn", kind, "--batch-size", 8))
    beams = {index: lines[0] for index, lines in tagged_lines(output, "H").items()}
    combine, neighbours = load_combination(store, kind)
    fitted = json.loads((store / "fitted.json").read_text())
    assert max(fitted["nll"]["vanilla"], fitted["nll"]["adaptive"]) < fitted["nll"]["plain"]
    with Translator(data_bin, checkpoint=checkpoint, memory_k=0, cpu=True) as translator:
        model, task = translator.call(lambda session: (session.model, session.task))
        parts = translator.call(lambda session: list(knn.Steps(session, "train").batches()))
    keys, symbols = (np.concatenate([part[n].numpy() for part in parts]) for n in (1, 2))
    assert len(keys) == sum(len(target) + 1 for target in DataBin(data_bin).pair("train")[1])
    sources, _ = DataBin(data_bin).pair("test")
    changed = 0
    for index in list(beams)[:6]:
        score, text = beams[index]
        target = task.target_dictionary.encode_line(text, add_if_not_exist=False).long()
        source = torch.tensor([*sources[index].tolist(), 2])[None]
        previous = torch.cat([target[-1:], target[:-1]])[None]
        with torch.no_grad():
            own = model.guided.translator
            passed = own.run(previous, own.encode(source, torch.tensor([source.size(1)])))
            logits = own.logits(passed.states, own.logits_from_context(passed.contexts), passed.inputs)[0]
        total = 0.0
        for state, scores, symbol in zip(passed.states[0].numpy(), logits.double(), target.tolist(), strict=True):
            distances = ((keys.astype(np.float64) - state) ** 2).sum(1)
            near = np.argsort(distances, kind="stable")[:neighbours]
            d, v = distances[near], symbols[near].tolist()
            p = torch.softmax(scores, -1).numpy()
            if kind == "vanilla":
                close = literal_neighbours(d, v, fitted["k"], fitted["temperature"], len(p))
                mixed = fitted["weight"] * close[symbol] + (1 - fitted["weight"]) * p[symbol]
            else:
                with torch.no_grad():
                    shares = combine(torch.tensor(d[None]).float(), torch.tensor([v]))
                same = [float(w) for w, other in zip(shares.of_neighbours[0], v, strict=True) if other == symbol]
                mixed = sum(same) + float(shares.of_nmt) * p[symbol]
            total += math.log(mixed)
            changed += abs(mixed - p[symbol]) > 0.01
        assert float(score) == pytest.approx(total / len(target) / math.log(2), abs=2e-3)
    assert changed > 3


@needs_faiss
def test_a_datastore_belongs_to_its_checkpoint(data_bin: Path, trained: Path, store: Path, tmp_path: Path):
    other, own = trained / "checkpoint1.pt", trained / "checkpoint_last.pt"
    said = run_stock_until_it_stops("generate", *generate(data_bin, store, other))
    assert f"was made with another checkpoint than {other}" in said
    said = run_stock_until_it_stops("generate", *generate(data_bin, tmp_path, own))
    assert f"{tmp_path} is not a datastore" in said
    said = run_stock_until_it_stops("generate", *generate(data_bin, store, own, "--memory-k", 2))
    assert "no --memory-k" in said
    before = (store / "keys.faiss").stat().st_mtime_ns
    facts = run("knn.py", data_bin, own, store, "--cpu", "--index", "Flat")
    assert '"bytes per pair"' in facts and (store / "keys.faiss").stat().st_mtime_ns == before


def test_missing_faiss_is_said_in_a_sentence(data_bin: Path, trained: Path, tmp_path: Path):
    code = (
        "import importlib.util as util, runpy; find = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'faiss' else find(name, *more)\n"
        f"runpy.run_path({str(PEERS / 'knn.py')!r}, run_name='__main__')\n"
    )
    command = [sys.executable, "-c", code, data_bin, trained / "checkpoint_last.pt", tmp_path / "store", "--cpu"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert (
        done.returncode
        and done.stderr.strip().splitlines()[-1] == "kNN-MT needs faiss: run pip install 'fairseq-seg[peers]'."
    )
