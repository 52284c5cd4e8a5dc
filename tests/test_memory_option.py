"""--memory: several memories and the training set in one ranking, and memories that do not fit the model refused."""

from pathlib import Path

import numpy as np
import pytest

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.selection import Selection, greedy_coverage
from fairseq_seg.errors import SegError
from fairseq_seg.retrieval.fuzzy import as_characters
from fairseq_seg.source.memories import check_memories, check_subwords, parse_memories
from fairseq_seg.source.pair_source import PairSource, Wanted, exact_pairs, open_live
from fairseq_seg.store.store import TranslationMemory
from preprocess import subword
from tests.corpus import SOURCE, TARGET, Corpus, vocabulary
from tests.tiny import EOS, PAD, make_pairs

UNKNOWN = 3
SENTENCE = "the Name1 of Name2 with Name3"
WORDS = [["<s>", "<pad>", "</s>", "<unk>", *words] for words in vocabulary()]


def make(path: Path, data_bin: Path, *pairs: tuple[str, str], **origin: str) -> str:
    """Make a memory of whole words and return its path."""
    with TranslationMemory.create(path, SOURCE, TARGET, data_bin) as memory:
        for source, target in pairs:
            memory.add(source, target, **origin)
    return str(path)


@pytest.fixture
def client(tmp_path: Path, data_bin: Path) -> str:
    pairs = ("the Name1 of Name2 with Name4", "client near"), ("the Name1 of Name5", "client far")
    return make(tmp_path / "client.mem", data_bin, *pairs, origin="letters.tmx", unit="u7")


@pytest.fixture
def domain(tmp_path: Path, data_bin: Path) -> str:
    pairs = (SENTENCE, "domain exact"), ("the Name1 of Name2 with Name4", "client near")
    return make(tmp_path / "domain.mem", data_bin, *pairs)


@pytest.fixture
def retrieve(data_bin: Path):
    """Return a function: the pairs of a sentence as (origin, score), best first."""

    def run(memories: str, sentence: str = SENTENCE, exact: str = "model", **selection):
        found = live(data_bin, memories, exact, **({"k": 9} | selection)).retrieve([symbols(sentence)])
        assert found.starts.tolist() == [0, len(found.ids)]
        [(ids, scores, _)] = found
        return [(found.table.origin(pair), pytest.approx(score)) for pair, score in zip(ids, scores, strict=True)]

    return run


def live(data_bin: Path, memories: str, exact: str = "model", **selection) -> PairSource:
    return open_live(DataBin(data_bin, SOURCE, TARGET), Wanted(Selection(**selection), memories, exact))


def symbols(sentence: str) -> np.ndarray:
    ids = [WORDS[0].index(word) if word in WORDS[0] else UNKNOWN for word in sentence.split()]
    return np.array([*ids, EOS])


def test_names_and_penalties():
    assert parse_memories("a.mem") == [("a.mem", 0)]
    assert parse_memories("a.mem, b/c.mem:0.05,train:1") == [("a.mem", 0), ("b/c.mem", 0.05), ("train", 1)]
    assert parse_memories("C:mem") == [("C:mem", 0)]
    for wrong in ("", "a.mem,", ":0.5", "a.mem:1.5", "a.mem:-0.1", "a.mem:nan"):
        with pytest.raises(SegError, match="is not a memory: write PATH, or PATH:PENALTY with a penalty from 0 to 1"):
            parse_memories(wrong)


def test_penalties_change_the_ranking(retrieve, client: str, domain: str):
    near, far = "client.mem:1 (letters.tmx, unit u7)", "client.mem:2 (letters.tmx, unit u7)"
    exact = "domain.mem:1"
    # The pair that both memories hold counts once, as the better memory's.
    assert retrieve(f"{client},{domain}") == [(exact, 1), (near, 5 / 6), (far, 3 / 6)]
    assert retrieve(f"{client},{domain}:0.3") == [(near, 5 / 6), (exact, 0.7), (far, 3 / 6)]
    # Of equal scores, that of the memory that is named first.
    assert retrieve(f"{client}:0.25,{domain}:0.75") == [(near, 5 / 6 - 0.25), (far, 0.25), (exact, 0.25)]
    assert retrieve(f"{domain},{client}") == [(exact, 1), ("domain.mem:2", 5 / 6), (far, 3 / 6)]


def test_selection_and_lowest_score_are_of_the_lowered_scores(retrieve, client: str, domain: str):
    assert [origin for origin, _ in retrieve(f"{client},{domain}:0.3", k=1)] == ["client.mem:1 (letters.tmx, unit u7)"]
    assert [origin for origin, _ in retrieve(f"{client}:0.1,{domain}", min_score=0.5)] == [
        "domain.mem:1",
        "domain.mem:2",
    ]
    # Ranked first, the near one covers all but Name3, which only the exact one has; the far one adds nothing.
    assert [score for _, score in retrieve(f"{client},{domain}:0.3", mode="adaptive")] == [5 / 6, 0.7]


def test_the_training_set_can_be_one_of_the_memories(retrieve, corpus: Corpus, data_bin: Path, tmp_path: Path):
    pair, other = corpus.train[0], corpus.train[1]
    copies = make(tmp_path / "copies.mem", data_bin, (pair.source, "un deux"), (pair.source, pair.target))
    alone = retrieve("train", pair.source)
    assert alone[0] == ("train:0", 1)
    both = retrieve(f"train,{copies}:0.01", pair.source)
    assert both[:2] == [("train:0", 1), ("copies.mem:1", 0.99)] and both[2:] == alone[1:8]
    assert retrieve(f"{copies},train:0.5", pair.source)[:2] == [("copies.mem:1", 1), ("copies.mem:2", 1)]
    assert retrieve(f"train,{copies}:0.01", other.source)[0][0].startswith("train:")


def test_several_memories_adapt_to_coverage_as_one_would(corpus: Corpus, data_bin: Path, tmp_path: Path):
    halves = [
        make(tmp_path / f"{half}.mem", data_bin, *((pair.source, pair.target) for pair in corpus.train[half::2]))
        for half in (0, 1)
    ]
    best = live(data_bin, ",".join(halves), k=100)
    adaptive = live(data_bin, ",".join(halves), mode="adaptive")
    for pair in corpus.test[:10]:
        query = symbols(pair.source)
        every, chosen = best.retrieve([query]), adaptive.retrieve([query])
        sources = [as_characters(every.table.source[pair]) for pair in every.ids]
        marks = greedy_coverage(as_characters(query[:-1]), sources)
        origins = [every.table.origin(pair) for pair in every.ids[marks]]
        assert origins == [chosen.table.origin(pair) for pair in chosen.ids]
        assert len(chosen.ids) < len(every.ids)


def test_exact_matches_are_left_out_and_replaced(retrieve, client: str, domain: str):
    found = retrieve(f"{client},{domain}", exact="ignore", k=2)
    assert [origin for origin, _ in found] == [f"client.mem:{id} (letters.tmx, unit u7)" for id in (1, 2)]


def test_what_has_an_unknown_symbol_is_not_an_exact_match(retrieve, data_bin: Path, tmp_path: Path):
    memory = make(tmp_path / "unknown.mem", data_bin, ("the Name1 of xyzzy", "le"))
    assert retrieve(memory, "the Name1 of plugh", exact="ignore") == [("unknown.mem:1", 1)]


def test_a_copy_is_verbatim_or_not_made(data_bin: Path, tmp_path: Path):
    """Without the texts of sentences, as in fairseq's commands, only what symbols spell is compared and returned."""
    pairs = (
        ("the Name1", "le Secret1"),
        ("the Name2", "le\u00a0Secret2"),
        ("the Name3", "le xyzzy"),
        ("of  Name4", "un"),
    )
    wanted = Wanted(Selection(1), make(tmp_path / "exact.mem", data_bin, *pairs), exact="copy")
    sentences = [symbols(source) for source, _ in pairs]
    found = open_live(DataBin(data_bin, SOURCE, TARGET), wanted).retrieve(sentences)
    assert exact_pairs(sentences, found, wanted) == [0, None, None, None]
    assert exact_pairs(sentences, found, wanted, [source for source, _ in pairs]) == [0, 1, 2, 3]
    assert exact_pairs(sentences, found, wanted, ["the Name1", "the\u00a0Name2", "the Name3 ", "of Name4"]) == [
        0,
        None,
        2,
        None,
    ]


def test_a_retrieved_pair_stays_as_it_was(data_bin: Path, client: str):
    source = live(data_bin, client, k=1)
    first = source.retrieve([symbols(SENTENCE), symbols(SENTENCE)])
    assert first.ids.tolist() == [0, 0] and len(first.table) == 1  # two sentences share the pair
    before = first.table.target[0].tolist()
    with TranslationMemory(client) as memory:
        memory.update(1, target="le Secret1")
    second = source.retrieve([symbols(SENTENCE)])
    assert first.table.target[0].tolist() == before and first.table.text(0)[1] == "client near"
    assert second.table.target[second.ids[0]].tolist() == [WORDS[1].index("le"), WORDS[1].index("Secret1")]
    assert second.table.text(0) == ("the Name1 of Name2 with Name4", "le Secret1")


def test_memories_of_other_symbols_are_refused(data_bin: Path, client: str, tmp_path: Path):
    def message(names: str, langs=(SOURCE, TARGET), dictionaries=WORDS) -> str:
        with pytest.raises(SegError) as stop:
            check_memories(names, langs, dictionaries)
        return str(stop.value)

    check_memories(f"{client},train", (SOURCE, TARGET), WORDS)
    assert "does not use the model's fr dictionary" in message(client, dictionaries=[WORDS[0], WORDS[0]])
    assert "is a memory for en-fr, but the model translates fr-en" in message(client, (TARGET, SOURCE), WORDS[::-1])
    assert "is not a translation memory: make one with `seg-memory create`" in message(str(tmp_path / "none"))


def test_memories_of_another_subword_model_are_refused(data_bin: Path, client: str, tmp_path: Path):
    """Even where the dictionary knows the symbols of both: the same text would be cut in another way."""
    text = data_bin.with_name("text") / f"train.{SOURCE}"
    pieces: dict[str, None] = {}
    for name, size in (("a", "200"), ("b", "210")):
        subword.main(["train", "--input", str(text), "--model", str(tmp_path / name), "--vocab-size", size])
        lines = (tmp_path / f"{name}.dict.txt").read_text(encoding="utf-8").splitlines()
        pieces |= {line.split()[0]: None for line in lines}
    for lang in (SOURCE, TARGET):
        (tmp_path / f"dict.{lang}.txt").write_text("".join(f"{piece} 1\n" for piece in pieces), encoding="utf-8")
    memories = []
    for name in ("a", "b"):
        model = tmp_path / f"{name}.model"
        memories.append(str(tmp_path / f"{name}.mem"))
        TranslationMemory.create(memories[-1], SOURCE, TARGET, tmp_path, model, model).close()
    dictionary = [*WORDS[0][:4], *pieces]
    check_memories(memories[0], (SOURCE, TARGET), (dictionary, dictionary))
    with pytest.raises(SegError, match=f"^{memories[1]} and {memories[0]} use different subword models"):
        check_memories(",".join(memories), (SOURCE, TARGET), (dictionary, dictionary))
    check_subwords(f"train,{memories[0]},{client}", str(tmp_path / "a.model"))
    with pytest.raises(SegError, match=f"^{memories[1]} does not use the subword model .*a.model"):
        check_subwords(",".join(memories), str(tmp_path / "a.model"))


def test_a_symbol_that_the_dictionary_does_not_know_is_no_slot():
    memory = make_pairs([([4, EOS], [6, UNKNOWN, 7, EOS]), ([5, EOS], [UNKNOWN, EOS])], [[1, 0], []])
    batch = memory.collate([memory.row(0), memory.row(1)])
    slots = batch["slots"]
    read = batch["tokens"].flatten()[slots.clamp(min=0)].masked_fill(slots < 0, PAD)
    assert read.tolist() == [[EOS, 6, 7, EOS], [PAD] * 4]
    assert batch["ranks"].tolist() == [[0, 1, 1, 1], [-1] * 4]
    # The translator still reads the pair as it is.
    assert batch["prev_output_tokens"].tolist() == [[EOS, UNKNOWN, PAD, PAD], [EOS, 6, UNKNOWN, 7]]


def test_greedy_coverage_runs_once_per_sentence_and_only_where_it_is_asked_for(client, domain, data_bin, monkeypatch):
    runs: list[str] = []

    def counting(query: str, candidates):
        runs.append(query)
        return greedy_coverage(query, candidates)

    for module in ("fairseq_seg.source.live", "fairseq_seg.retrieval.retriever"):
        monkeypatch.setattr(f"{module}.greedy_coverage", counting)
    sentences = [symbols(SENTENCE), symbols("the Name5 of Name6")]
    live(data_bin, f"{client},{domain},train", mode="adaptive").retrieve(sentences)
    assert len(runs) == 2
    live(data_bin, f"{client},{domain},train", mode="topk").retrieve(sentences)
    assert len(runs) == 2
