"""A small bilingual grammar that makes the tests' corpora: nothing is downloaded and a seed fixes every sentence.

A corpus is a list of *groups*. A group draws a template, a word for each of its slots and a symbol for its name; its
pairs differ from each other in exactly one word, so they are the near-duplicates a translation memory lives on.
Ordinary words always translate the same way. Names do not: each group draws the symbol of its name afresh, so the same
name has another translation in another group, and the only evidence is a pair of the same group. A model without memory
cannot do better than to guess (1 of ``SECRETS`` symbols).

One caution. A model that has seen the training half of a group for long enough can learn the group by heart. To rule
that out, train on one seed and translate another: all seeds share one lexicon and hence one dictionary, but their
groups have nothing in common.
"""

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE, TARGET = "en", "fr"
NAMES = 12
SECRETS = 20
SPLITS = ("train", "valid", "test")


def _invent_words(count: int, syllables: list[str], rng: random.Random) -> list[str]:
    """Return `count` distinct words of two or three syllables."""
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(rng.choices(syllables, k=rng.choice((2, 3))))] = None
    return list(words)


def _make_lexicon() -> dict[str, dict[str, str]]:
    """Return, for each slot, its source words and their translations; every fifth translation has two words."""
    rng = random.Random(0)
    sizes = {"ADJ": 24, "NOUN": 40, "VERB": 24, "OBJ": 40, "TIME": 12}
    syllables = ["ba", "do", "fe", "gi", "ho", "ku", "lo", "mer", "nat", "pon", "rus", "sti"]
    source = iter(_invent_words(sum(sizes.values()), syllables, rng))
    syllables = ["ain", "bou", "cre", "dau", "eil", "gue", "jou", "lai", "nou", "que", "res", "vin"]
    target = iter(_invent_words(sum(sizes.values()), syllables, rng))
    lexicon: dict[str, dict[str, str]] = {}
    for slot, size in sizes.items():
        # A two-word translation starts with the slot's own particle, so one source word may need two target words.
        particles = [f"{slot.lower()} " if i % 5 == 0 else "" for i in range(size)]
        lexicon[slot] = {next(source): particle + next(target) for particle in particles}
    return lexicon


LEXICON = _make_lexicon()
NAME_WORDS = [f"Name{i}" for i in range(NAMES)]
SECRET_WORDS = [f"Secret{i}" for i in range(SECRETS)]

# Upper-case words are slots; the order of the two sides differs, so that the attention has something to learn.
TEMPLATES = [
    ("the ADJ NOUN of NAME VERB the OBJ", "le NOUN ADJ de NAME VERB le OBJ"),
    ("TIME the NOUN VERB an ADJ OBJ for NAME", "pour NAME le NOUN VERB un OBJ ADJ TIME"),
    ("NAME must VERB the OBJ before the NOUN TIME", "TIME NAME doit VERB le OBJ avant le NOUN"),
    ("does the NOUN VERB NAME with an OBJ ?", "est-ce que le NOUN VERB NAME par un OBJ ?"),
    ("no ADJ OBJ shall VERB a NOUN under NAME", "sous NAME aucun OBJ ADJ ne VERB un NOUN"),
]


@dataclass(frozen=True)
class Pair:
    """One sentence pair, the group it belongs to, and the symbol that its name translates to in this group."""

    source: str
    target: str
    group: int
    secret: str


@dataclass(frozen=True)
class Corpus:
    """The three splits; every pair of `valid` and `test` has near-duplicates in `train` if the group size is over 1."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]

    def splits(self) -> Iterator[tuple[str, list[Pair]]]:
        """Yield each split's name and pairs."""
        return ((name, getattr(self, name)) for name in SPLITS)


def _fill(template: str, words: dict[str, str]) -> str:
    return " ".join(words.get(word, word) for word in template.split())


def _make_group(group: int, size: int, rng: random.Random) -> list[Pair]:
    """Return `size` pairs that differ from each other in the word of one slot."""
    source_template, target_template = rng.choice(TEMPLATES)
    slots = sorted(set(source_template.split()) & set(LEXICON))
    words = {slot: rng.choice(list(LEXICON[slot])) for slot in slots}
    name, secret = rng.choice(NAME_WORDS), rng.choice(SECRET_WORDS)
    changing = rng.choice(slots)
    pairs = []
    for word in rng.sample(list(LEXICON[changing]), size):
        chosen = words | {changing: word}
        meanings = {slot: LEXICON[slot][word] for slot, word in chosen.items()}
        source = _fill(source_template, chosen | {"NAME": name})
        target = _fill(target_template, meanings | {"NAME": secret})
        pairs.append(Pair(source, target, group, secret))
    return pairs


def make_corpus(seed: int = 1, groups: int = 120, group_size: int = 4, held_out: int = 40) -> Corpus:
    """Return a corpus of `groups` groups of `group_size` pairs each (12 at most, the size of the smallest slot).

    `held_out` groups give one pair to `valid`, as many others one to `test`; the rest of these groups, and all other
    groups, are `train`. With a group size of 1 no sentence has a near-duplicate; the larger it is, the more the corpus
    repeats itself.
    """
    rng = random.Random(seed)
    corpus = Corpus([], [], [])
    for group in range(groups):
        first, *others = _make_group(group, group_size, rng)
        split = corpus.valid if group < held_out else corpus.test if group < 2 * held_out else corpus.train
        split.append(first)
        corpus.train.extend(others)
    rng.shuffle(corpus.train)
    return corpus


def vocabulary() -> tuple[list[str], list[str]]:
    """Return all symbols of the source and of the target language, the same for every seed."""
    template_words = [[word for pair in TEMPLATES for word in pair[side].split()] for side in (0, 1)]
    slots = {"NAME", *LEXICON}
    source = [word for words in LEXICON.values() for word in words] + NAME_WORDS
    target = [word for words in LEXICON.values() for word in " ".join(words.values()).split()] + SECRET_WORDS
    source += [word for word in template_words[0] if word not in slots]
    target += [word for word in template_words[1] if word not in slots]
    return list(dict.fromkeys(source)), list(dict.fromkeys(target))


def write_text(corpus: Corpus, folder: Path) -> None:
    """Write `{split}.en` and `{split}.fr`, and the two languages' fairseq dictionaries, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in corpus.splits():
        for language, side in ((SOURCE, "source"), (TARGET, "target")):
            lines = "".join(getattr(pair, side) + "\n" for pair in pairs)
            (folder / f"{split}.{language}").write_text(lines, encoding="utf-8")
    for language, words in zip((SOURCE, TARGET), vocabulary(), strict=True):
        (folder / f"dict.{language}.txt").write_text("".join(f"{word} 1\n" for word in words), encoding="utf-8")


def write_huffman(folder: Path, data_bin: Path) -> None:
    """Write the text files of `folder` with fairseq's Huffman builder, the symbols numbered as in the dictionary."""
    from fairseq.data import Dictionary
    from fairseq.data.huffman import HuffmanCodeBuilder, HuffmanMMapIndexedDatasetBuilder

    data_bin.mkdir()
    for language in (SOURCE, TARGET):
        shutil.copy(folder / f"dict.{language}.txt", data_bin)
        symbols = Dictionary.load(str(folder / f"dict.{language}.txt")).symbols
        counts = HuffmanCodeBuilder()
        for number, symbol in enumerate(symbols):
            counts.increment(symbol, 2 * len(symbols) - number)
        for split in SPLITS:
            prefix = data_bin / f"{split}.{SOURCE}-{TARGET}.{language}"
            with HuffmanMMapIndexedDatasetBuilder(str(prefix), counts.build_code()) as builder:
                for line in (folder / f"{split}.{language}").read_text(encoding="utf-8").splitlines():
                    builder.add_item([*line.split(), "</s>"])


def binarize(folder: Path, data_bin: Path, dataset_impl: str = "mmap") -> None:
    """Binarize the text files of `folder` into `data_bin`, in this process, exactly as `fairseq-preprocess` does."""
    if dataset_impl == "huffman":  # which fairseq-preprocess refuses to write
        return write_huffman(folder, data_bin)
    from fairseq import options
    from fairseq_cli import preprocess

    arguments = ["--source-lang", SOURCE, "--target-lang", TARGET]
    arguments += ["--destdir", str(data_bin), "--dataset-impl", dataset_impl]
    arguments += ["--srcdict", str(folder / f"dict.{SOURCE}.txt"), "--tgtdict", str(folder / f"dict.{TARGET}.txt")]
    for split in SPLITS:
        arguments += [f"--{split}pref", str(folder / split)]
    preprocess.main(options.get_preprocessing_parser().parse_args(arguments))
