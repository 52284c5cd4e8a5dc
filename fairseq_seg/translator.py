"""Translation from Python: texts in, translations out, each with its pairs and, on request, where every word came from.

from fairseq_seg import Translator

with Translator("model", memory="client.mem,train") as translator:
    for translation in translator.translate(["Type of hyperlink"], provenance=True):
        print(translation.text, [pair.origin for pair in translation.pairs])
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.dictionary import mostly_unknown
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.corpus.reserved import split_value
from fairseq_seg.corpus.subwords import Spelling, SymbolEncoder
from fairseq_seg.errors import SegError
from fairseq_seg.explain.records import Explanation, RetrievedPair

if TYPE_CHECKING:
    from torch import Tensor

    from fairseq_seg.source.memories import Match
    from fairseq_seg.source.pair_source import PairSource
    from fairseq_seg.source.terms import TermCutter

BATCH_SIZE = 32
# The origin of a pair that was given with its sentence.
PREVIOUS = "previous version"

Result = TypeVar("Result")


@dataclass
class Translation:
    """One translated text."""

    source: str
    text: str  # detokenised
    score: float = 0.0  # mean log probability per symbol, of fairseq's search
    # empty, cut (too long), exact (a memory's), unknown (symbols), check (has faults, see --memory-check)
    flags: list[str] = field(default_factory=list)
    pairs: list[RetrievedPair] = field(default_factory=list)  # that were retrieved, best first
    explanation: Explanation | None = None  # on request: the provenance of every symbol and word


class Translator:
    """A model folder and memories, opened once.

    It may be called from several threads: one worker thread owns the model, the Java machine and the databases, and
    callers queue for it. Changes of a memory show with the next call. Bad input raises a `SegError`, a sentence.
    """

    def __init__(
        self, folder: str | Path, *, checkpoint: str | Path | None = None, arguments: Sequence[str] = (), **options: Any
    ):
        """Open a model.

        Args:
            folder: a model folder, or a data-bin and a `checkpoint`; texts are in symbols then, unless fairseq's
                options `bpe` and `sentencepiece_model` say how to cut them.
            options: options of fairseq-interactive by their names (memory, memory_k, beam, lenpen, batch_size,
                cpu ...), in place of what the folder says.
            arguments: the same in the form of a command line; `options` have the last word.
        """
        self._closed, self._lock = False, Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="translator")
        try:
            self._session: Session = self._worker.submit(Session, Path(folder), checkpoint, arguments, options).result()
        except BaseException:
            self._worker.shutdown()
            raise

    def translate(
        self,
        texts: Sequence[str],
        provenance: bool = False,
        previous: Sequence[tuple[str, str] | None] | None = None,
        memories: Collection[str] | None = None,
    ) -> list[Translation]:
        """Translate texts: one translation per text, in order. An empty text stays empty, an over-long one is cut.

        Args:
            previous: for each text, an older version and its translation, or None: that pair comes first.
            memories: those of the translator's memories to take pairs from, by their names, instead of all.
        """
        if isinstance(texts, str):
            raise SegError("translate() takes a list of texts, not one text: put it in brackets.")
        return self.call(lambda session: session.translate(list(texts), provenance, previous, memories))

    @property
    def protects_tags(self) -> bool:
        """Whether tags in a text come back as they are."""
        return self.call(lambda session: session.protects_tags)

    def exact_matches(self, texts: Sequence[str]) -> list[Translation | None]:
        """Return what the memories have for the very same texts, with `memory_exact="copy"`; None for other texts."""
        return self.call(lambda session: session.exact_matches(list(texts)))

    def call(self, function: Callable[[Session], Result]) -> Result:
        """Run a function in the worker thread, with what that owns."""
        with self._lock:  # nothing may queue behind the closing
            if self._closed:
                raise SegError("This translator is closed: open another.")
            waiting = self._worker.submit(function, self._session)
        return waiting.result()

    def close(self) -> None:
        """Finish the calls that have begun, and release everything."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self._worker.submit(self._session.close).result()
            self._worker.shutdown()

    def __enter__(self) -> Translator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Session:
    """What the worker thread owns."""

    def __init__(self, folder: Path, checkpoint: str | Path | None, arguments: Sequence[str], options: dict[str, Any]):
        model_folder = ModelFolder.find(folder)
        if checkpoint is None:
            model_folder = ModelFolder.load(folder)
            checkpoint = model_folder.checkpoint_path
        elif model_folder is None and not folder.is_dir():
            raise SegError(f"The data folder {folder} does not exist.")
        usual: dict[str, Any] = {}
        if model_folder is not None:
            usual = {"source_lang": model_folder.source_lang, "target_lang": model_folder.target_lang}
            usual |= model_folder.options
        named = [str(folder), *as_arguments(usual), *arguments, *as_arguments(options), "--path", str(checkpoint)]
        self.cfg = configure(named)
        self.folder, self.checkpoint = model_folder, Path(checkpoint)
        self._open(self.checkpoint)
        self._encode = self._make_encoder()

    def _open(self, checkpoint: Path) -> None:
        from fairseq import tasks

        from fairseq_seg.checkpoints import load_model
        from fairseq_seg.tasks.seg_translation import SegTranslationTask

        task = tasks.setup_task(self.cfg.task)
        if not isinstance(task, SegTranslationTask):
            raise SegError("Only --task seg_translation is known here: leave out --task.")
        self.task = task
        self.model, saved = load_model(checkpoint, task, self.cfg)
        self.trained_k: int = saved.task.memory_k
        self.generator = task.build_generator([self.model], self.cfg.generation)
        self.data: DataBin = task.data_bin()
        self.source_spelling = Spelling(task.source_dictionary.symbols)
        self.target_spelling = Spelling(task.target_dictionary.symbols)

    def _make_encoder(self) -> Callable[[str], np.ndarray]:
        """Return what cuts a text into ids, as fairseq-interactive does with the same folder and options."""
        tokenizer, bpe = self.task.build_tokenizer(self.cfg.tokenizer), self.task.build_bpe(self.cfg.bpe)
        dictionary = self.task.source_dictionary
        encoder = SymbolEncoder(dictionary.symbols, None)

        def encode(text: str) -> np.ndarray:
            text = text if tokenizer is None else tokenizer.encode(" ".join(text.split()))
            text = text if bpe is None else bpe.encode(text)
            ids = encoder.encode(text)
            if self.task.protections is not None:
                valued = [(place, word) for place, word in enumerate(text.split()) if split_value(word)]
                ids[[place for place, _ in valued]] = [dictionary.index(word) for _, word in valued]
            return ids

        return encode

    def symbols_of(self, text: str) -> np.ndarray:
        """Cut a text into token ids, without eos."""
        # A lone surrogate, as from a broken decoder, is a character like any other unknown one.
        return self._encode(text.encode("utf-8", "replace").decode("utf-8"))

    @property
    def live(self) -> PairSource | None:
        """What gives typed sentences their pairs."""
        return self.task.live if self.task.cfg.memory_k > 0 else None

    def within(self, memories: Collection[str] | None) -> PairSource | None:
        """Return what gives sentences pairs from some of the memories alone; None stands for all."""
        from fairseq_seg.source.live import Live
        from fairseq_seg.source.terms import WithTerms

        if memories is None or self.live is None:
            return self.live
        assert isinstance(self.live, Live | WithTerms), "nothing else can leave memories out"
        return self.live.within(memories)

    @cached_property
    def _cutter(self) -> TermCutter:
        from fairseq_seg.source.terms import TermCutter

        return TermCutter(self.data, "")

    def _given(self, pair: tuple[str, str] | None, text: str) -> Match | None:
        """Return the previous version of a text as a match; the same text would count as an exact match."""
        from fairseq_seg.corpus.terms import Term

        if pair is None or pair[0].strip() == text.strip():
            return None
        match = self._cutter.match(Term(*pair, (), 0), known=False)
        return None if match is None else match._replace(id=0, origin=PREVIOUS)

    def _with_given(self, source: PairSource | None, given: list[Match | None]) -> PairSource | None:
        from fairseq_seg.source.given import WithGiven
        from fairseq_seg.source.live import Live
        from fairseq_seg.source.terms import WithTerms

        if isinstance(source, Live | WithTerms) and any(pair is not None for pair in given):
            return WithGiven(source, given)
        return source

    def translate(
        self,
        texts: list[str],
        provenance: bool,
        previous: Sequence[tuple[str, str] | None] | None = None,
        memories: Collection[str] | None = None,
    ) -> list[Translation]:
        """Translate texts, with the older versions of some, and with pairs of some memories, by default of all."""
        self.task.warned = False  # one warning per call
        translations = [Translation(text, "") for text in texts]
        longest = self.task.max_positions()[0] - 1
        waiting: list[tuple[int, np.ndarray]] = []
        for place, text in enumerate(texts):
            symbols = self.symbols_of(text)
            if not len(symbols):
                translations[place].flags.append("empty")
                continue
            if len(symbols) > longest:
                symbols = symbols[:longest]
                translations[place].flags.append("cut")
            if mostly_unknown(symbols):
                translations[place].flags.append("unknown")
            waiting.append((place, symbols))
        # Sentences of like length together: padding costs as much as text.
        waiting.sort(key=lambda item: len(item[1]))
        size = self.cfg.dataset.batch_size or BATCH_SIZE
        for start in range(0, len(waiting), size):
            batch = waiting[start : start + size]
            named = [texts[place] for place, _ in batch]
            source = self.within(memories)
            if previous is not None:
                source = self._with_given(source, [self._given(previous[place], texts[place]) for place, _ in batch])
            found = self.translate_symbols([symbols for _, symbols in batch], source, provenance, texts=named)
            for (place, _), translation in zip(batch, found, strict=True):
                translation.source = texts[place]
                translation.flags = translations[place].flags + translation.flags
                if translation.explanation is not None:
                    translation.explanation.source = texts[place]
                translations[place] = translation
        return translations

    @property
    def protects_tags(self) -> bool:
        """Whether the model sees tags as reserved symbols."""
        protections = self.task.protections
        return protections is not None and all("tags" in protection.kinds for protection in protections)

    def exact_matches(self, texts: list[str]) -> list[Translation | None]:
        """Look texts up in the memories."""
        from fairseq_seg.data.example_pairs import as_tokens
        from fairseq_seg.source.pair_source import exact_pairs

        if self.live is None or self.task.wanted.exact != "copy":
            return [None] * len(texts)
        symbols = self.task.sequences([as_tokens(self.symbols_of(text)).numpy() for text in texts])
        found = self.live.retrieve(symbols)
        exact = exact_pairs(symbols, found, self.task.wanted, texts)
        assert exact is not None and found.table is not None
        matches: list[Translation | None] = [None] * len(texts)
        for place, pair in enumerate(exact):
            if pair is not None:
                source, target = found.table.text(pair)
                known = RetrievedPair(found.table.id(pair), found.table.origin(pair), 1.0, source, target, [], [])
                matches[place] = Translation(texts[place], target, 0.0, ["exact"], [known])
        return matches

    def translate_symbols(
        self,
        sentences: Sequence[np.ndarray],
        source: PairSource | None,
        provenance: bool = False,
        first: int = 0,
        given: Sequence[np.ndarray] | None = None,
        texts: Sequence[str] | None = None,
    ) -> list[Translation]:
        """Translate one batch of sentences of token ids (without eos), with the pairs that a `source` gives them.

        `first` is the place of the first sentence in the source's split; `given` are translations to explain instead
        of searching for one; `texts`, if known, tell exact matches from near ones that have the same symbols.
        """
        import torch

        from fairseq_seg.data.example_pairs import as_tokens
        from fairseq_seg.data.valued_dictionary import split_values
        from fairseq_seg.explain.trace import explain, retrieved_pairs

        with torch.no_grad():
            dataset = self.task.sentence_dataset(
                [as_tokens(symbols) for symbols in sentences], source, first=first, texts=texts
            )
            if given is None:
                found = self._search(dataset)
            else:
                found = [(as_tokens(symbols), 0.0, False) for symbols in given]
            explained = explain(self.model, dataset, [tokens for tokens, *_ in found]) if provenance else None
        translations = []
        for index, (tokens, score, faulty) in enumerate(found):
            retrieved = dataset.retrieved
            exact = None if retrieved is None or given is not None else retrieved.exact_pair(index)
            text = self.task.target_text(tokens.tolist())
            if exact is not None and retrieved is not None:
                text = retrieved.table.text(exact)[1]
            flags = ["exact"] * (exact is not None) + ["check"] * faulty
            source_text = self.source_spelling.text(*split_values(self.task.source_dictionary, sentences[index]))
            translation = Translation(source_text, text, score, flags)
            if explained is not None:
                translation.explanation, translation.pairs = explained[index], explained[index].pairs
                translation.explanation.exact = exact is not None
            elif retrieved is not None:
                translation.pairs = retrieved_pairs(retrieved, index, self.target_spelling)
            translations.append(translation)
        return translations

    def _search(self, dataset) -> list[tuple[Tensor, float, bool]]:
        """Return the best translation of every sentence: token ids with eos, its score, and whether it has faults."""
        from fairseq import utils

        from fairseq_seg.tasks.check import FLAG

        device = next(self.model.parameters()).device
        batch = dataset.collater([dataset[index] for index in range(len(dataset))])
        batch = utils.apply_to_sample(lambda tensor: tensor.to(device), batch)
        best = [beam[0] for beam in self.task.inference_step(self.generator, [self.model], batch)]
        found = [(top["tokens"].cpu(), float(top["score"]), FLAG in top) for top in best]
        by_index = dict(zip(batch["id"].tolist(), found, strict=True))
        return [by_index[index] for index in range(len(dataset))]

    def close(self) -> None:
        """Close the memories, and leave the Java machine."""
        if "live" in vars(self.task):
            self.task.live.close()
        if "jnius" in sys.modules:
            sys.modules["jnius"].detach()


def as_arguments(options: dict[str, Any]) -> list[str]:
    """Return options, by their names, in the form of a command line."""
    arguments = []
    for name, value in options.items():
        if value is not None and value is not False:
            option = "--" + name.replace("_", "-")
            arguments.append(option if value is True else f"{option}={value}")
    return arguments


def configure(arguments: list[str]) -> Any:
    """Return fairseq's configuration from arguments of fairseq-interactive."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    from fairseq import options as fairseq_options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    from fairseq_seg.models import seg_gru, seg_transformer  # noqa: F401, registers the models and, with them, the task

    # One of fairseq's models, when imported, makes every library print its debug messages.
    root.setLevel(level)
    root.handlers[:] = handlers
    parser = fairseq_options.get_interactive_generation_parser("seg_translation")

    def refuse(message: str) -> None:
        raise SegError(f"The options are wrong: {message}.")

    parser.error = refuse  # type: ignore[method-assign, assignment]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of hydra, about the way in which fairseq calls it
        return convert_namespace_to_omegaconf(fairseq_options.parse_args_and_arch(parser, arguments))
