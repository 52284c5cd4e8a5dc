"""The task `seg_translation`: fairseq's translation task, with retrieved pairs beside every sentence."""

import atexit
import json
import logging
import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from fairseq import utils
from fairseq.data import data_utils
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
from fairseq.dataclass import ChoiceEnum
from fairseq.distributed import utils as distributed_utils
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.token_generation_constraints import pack_constraints
from omegaconf import II
from torch import Tensor

from fairseq_seg.cache.frozen import EntryCache
from fairseq_seg.cache.header import parse_size
from fairseq_seg.cache.passes import PassCache
from fairseq_seg.cache.rows import TYPES
from fairseq_seg.checkpoints import allow_fairseq_checkpoints, check_checkpoint
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.dictionary import mostly_unknown
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.corpus.notation import notation_of
from fairseq_seg.corpus.pairs import TRAIN, RankedPairs
from fairseq_seg.corpus.protection import Protection
from fairseq_seg.corpus.reserved import ReservedIds
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.corpus.subwords import SubwordModel, check_protection, one_blank
from fairseq_seg.corpus.terms import Terms
from fairseq_seg.corpus.values import Values

# fairseq imports the tasks and models of a user-dir by itself, the criterions not
from fairseq_seg.criterions import seg_cross_entropy  # noqa: F401
from fairseq_seg.data.example_pairs import ExamplePairs, as_tokens, limit
from fairseq_seg.data.seg_dataset import SegDataset, Tokens, order_of_parts
from fairseq_seg.data.valued_dictionary import ValuedDictionary, plain_tokens, split_values
from fairseq_seg.errors import SegError, hook, is_fairseq_command
from fairseq_seg.source.memories import check_memories, check_subwords
from fairseq_seg.source.pair_source import PairSource, Sentences, Wanted, exact_pairs, open_for_split, open_live
from fairseq_seg.source.terms import TermCutter
from fairseq_seg.tasks.check import OutputCheck, constrained_search, rows_of
from fairseq_seg.tasks.presets import PRESETS, resolve
from fairseq_seg.tasks.resume import check_resumed_options, patience
from fairseq_seg.tasks.texts import BatchTexts, SentenceKey, Spellings, source_symbols, with_values

logger = logging.getLogger(__name__)
allow_fairseq_checkpoints()

NOTHING = np.zeros(0, dtype=np.int64)  # the target of an empty line


@dataclass
class SegTranslationConfig(TranslationConfig):
    """The options of the task."""

    preset: ChoiceEnum(list(PRESETS)) = field(  # type: ignore[valid-type]
        default="paper",
        metadata={
            "help": "values for the training options that you do not give: paper, or recommended, which translates "
            "better and goes beyond the paper (keys with states, full M, overlap, larger lambda, two more losses)"
        },
    )
    left_pad_source: bool = field(default=False, metadata={"help": "not supported: sentences are padded on the right"})
    memory_k: int = field(
        default=2,
        metadata={
            "help": "retrieved pairs per sentence; 0 is the plain translator. May differ between training and test"
        },
    )
    memory_select: ChoiceEnum(["topk", "adaptive"]) = field(  # type: ignore[valid-type]
        default="topk",
        metadata={
            "help": "the --memory-k most similar pairs, or as many as it takes to cover the source's symbols (Alg. 1)"
        },
    )
    memory_min_score: float = field(
        default=0.0,
        metadata={"help": "leave out pairs with a lower fuzzy score (0 to 1), because weak matches can mislead"},
    )
    memory: str = field(
        default=TRAIN,
        metadata={
            "help": "translate with memories made by seg-memory: client.mem,domain.mem:0.05 ranks the pairs of both "
            "together, with scores of the second lowered by 0.05; train is the training set"
        },
    )
    memory_exact: ChoiceEnum(["model", "copy", "ignore"]) = field(  # type: ignore[valid-type]
        default="model",
        metadata={
            "help": "if a memory has an exact match: let the model decide, return the memory's target verbatim (not "
            "from a memory with a penalty), or ignore such pairs"
        },
    )
    memory_sample_k: bool = field(
        default=False,
        metadata={
            "help": "train each batch with a K drawn at random from 0 to --memory-k: for a model that works with any "
            "K, and still translates when the memory has nothing similar"
        },
    )
    memory_cache: str = field(
        default="",
        metadata={
            "help": "at translation time, cache the keys and values of retrieved pairs in this folder, so that they "
            "are computed once; a cache belongs to one checkpoint, see seg-cache"
        },
    )
    memory_cache_type: ChoiceEnum(["auto", *TYPES]) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={
            "help": "number type of the cache: fp32 (exact), fp16 (half the size) or int8 (a quarter); auto: the type "
            "of an existing cache, fp32 for a new one"
        },
    )
    memory_cache_size: str = field(
        default="4G",
        metadata={"help": "disk space for the cache (500M, 2G); beyond it, the least recently used pairs are evicted"},
    )
    terms: str = field(
        default="",
        metadata={
            "help": "translate terms as this file says, a source term, a tab and its target term on each line: those "
            "found in a sentence are offered to the memory as short pairs, beside --memory-k"
        },
    )
    terms_strict: bool = field(
        default=False,
        metadata={
            "help": "where a translation lacks a term, translate again with the term as a constraint; what cannot be "
            "repaired is flagged"
        },
    )
    terms_subwords: str = field(
        default="",
        metadata={
            "help": "the sentencepiece models that cut terms into symbols: SOURCE.model,TARGET.model, or one for both "
            "(default: those of the model folder)"
        },
    )
    memory_check: ChoiceEnum(["auto", "on", "off"]) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={
            "help": "check numbers, placeholders, tags and addresses of each translation; where one is lost or "
            "invented, try the other hypotheses, a search with the missing ones as constraints, and a search without "
            "memory; auto: on for a model with protected tokens"
        },
    )
    seed: int = II("common.seed")
    fp16: bool = II("common.fp16")
    checkpoints: str | None = II("common_eval.path")


@register_task("seg_translation", dataclass=SegTranslationConfig)
class SegTranslationTask(TranslationTask):
    """Translation with a memory of retrieved pairs (Gu et al., AAAI 2018)."""

    cfg: SegTranslationConfig

    def __init__(self, cfg: SegTranslationConfig, src_dict, tgt_dict):
        super().__init__(cfg, src_dict, tgt_dict)
        # The pairs of the last buffer of typed sentences, and the place of each sentence in it by its symbols.
        self.typed: tuple[ExamplePairs, dict[SentenceKey, int]] | None = None
        self.warned = False  # about unknown symbols
        self.model_positions = super().max_positions()
        self.passes: PassCache | None = None  # of a frozen translator, in training
        self.frozen: EntryCache | None = None  # the cache of --memory-cache, once there is a model
        self.check: OutputCheck | None = None  # of --memory-check
        self.validating = False  # translations are not checked then
        if self.checks_tokens or cfg.terms_strict:
            languages = (cfg.source_lang, src_dict), (cfg.target_lang, tgt_dict)
            found = [(lang, Protection.of(dictionary.symbols)) for lang, dictionary in languages]
            source, target = (notation_of(lang) if own is None else own.notation for lang, own in found)
            strict = Terms.read(cfg.terms) if cfg.terms_strict else None
            self.check = OutputCheck((source, target), self.checks_tokens, strict)
            if is_fairseq_command():
                atexit.register(self.check.log)

    @classmethod
    def load_dictionary(cls, filename):
        """Return fairseq's dictionary; one with reserved symbols can give them values."""
        dictionary = super().load_dictionary(filename)
        protected = ReservedIds.of(dictionary.symbols) is not None
        return ValuedDictionary.load(filename) if protected else dictionary

    @classmethod
    @hook
    def setup_task(cls, cfg: SegTranslationConfig, **kwargs):
        """Check the options and return the task."""
        one_thread()
        data = utils.split_paths(cfg.data)[0]
        if not os.path.isdir(data):
            raise SegError(
                f"The data folder {data} does not exist: create it with fairseq-preprocess --destdir {data}."
            )
        if cfg.left_pad_source or cfg.left_pad_target:
            raise SegError("seg_translation pads on the right: leave out --left-pad-source and --left-pad-target.")
        if cfg.memory_k < 0:
            raise SegError(f"--memory-k {cfg.memory_k} is negative: give 0 or more.")
        parse_size(cfg.memory_cache_size)
        if cfg.terms and cfg.memory_k == 0:
            raise SegError("--terms are offered to the memory: use --memory-k 1 or more.")
        if (cfg.terms_strict or cfg.terms_subwords) and not cfg.terms:
            raise SegError("--terms-strict and --terms-subwords need --terms FILE.")
        if cfg.source_lang is None or cfg.target_lang is None:
            cfg.source_lang, cfg.target_lang = data_utils.infer_language_pair(data)
        for side, lang in (("source", cfg.source_lang), ("target", cfg.target_lang)):
            if lang is None:
                raise SegError(f"The languages of {data} cannot be inferred: name them with -s and -t.")
            if not os.path.isfile(os.path.join(data, f"dict.{lang}.txt")):
                raise SegError(
                    f"{data} has no dict.{lang}.txt: check that {lang} is the {side} language, or run "
                    "fairseq-preprocess."
                )
        task = super().setup_task(cfg, **kwargs)
        if cfg.memory != TRAIN:
            dictionaries = task.src_dict.symbols, task.tgt_dict.symbols
            check_memories(cfg.memory, (cfg.source_lang, cfg.target_lang), dictionaries)
        if cfg.terms:  # before any work is done
            Terms.read(cfg.terms)
            TermCutter(task.data_bin(), cfg.terms_subwords)
        if is_fairseq_command() and cfg.checkpoints:  # fairseq itself would show a traceback
            for path in utils.split_paths(cfg.checkpoints):
                check_checkpoint(path)
        return task

    @hook
    def build_bpe(self, args):
        """Return the subword encoder of typed sentences: from fairseq's options, or from a model folder.

        The memories must have been encoded with the same one.
        """
        model = getattr(args, "sentencepiece_model", None)
        folder = ModelFolder.find(utils.split_paths(self.cfg.data)[0])
        from_folder = args is None and folder is not None and folder.subword_paths is not None
        if from_folder:
            model = str(folder.subword_paths[0])
        if model:
            check_subwords(self.cfg.memory, model)
        bpe = (
            SentencepieceBPE(SentencepieceConfig(sentencepiece_model=model)) if from_folder else super().build_bpe(args)
        )
        return self.as_encoded(bpe, model)

    def as_encoded(self, bpe, model: str | None):
        """Return fairseq's subword encoder (or None), made to encode a text as `seg-subword encode` does.

        Protected tokens become reserved symbols with their values. `model`: the path of a sentencepiece model.
        """
        if bpe is None:
            return None
        encode = bpe.encode
        bpe.encode = lambda text: encode(one_blank(text))
        if model:
            subwords = SubwordModel(Path(model))
            check_protection(self.src_dict.symbols, subwords, f"The dictionary of {self.cfg.data}")
            if subwords.protection is not None:
                bpe.encode = lambda text: " ".join(subwords.cut_source(text).with_values())
        return bpe

    @hook
    def build_model(self, cfg, from_checkpoint=False):
        """Return fairseq's model; training refuses a cache."""
        frozen = getattr(cfg, "freeze_translator", False)
        if self.cfg.memory_cache and not from_checkpoint and not frozen:
            raise SegError("--memory-cache is for a frozen model: leave it out to train, or add --freeze-translator.")
        if self.cfg.fp16 and not from_checkpoint and not torch.cuda.is_available():
            raise SegError("--fp16 trains on a GPU, and there is none: leave it out.")
        resolve(cfg, str(self.cfg.preset))
        if not from_checkpoint and hasattr(cfg, "memory_k") and hasattr(cfg, "_get_parent"):  # one of our models
            cfg.memory_k = self.cfg.memory_k
            whole = cfg._get_parent()
            if frozen:
                check_frozen(cfg, whole, self.cfg)
            if whole is not None and whole.checkpoint.finetune_from_model:
                ARCH_MODEL_REGISTRY[cfg._name].take_sizes(cfg, whole.checkpoint.finetune_from_model)
        model = super().build_model(cfg, from_checkpoint)
        self.model_positions = model.max_positions()
        if not hasattr(model, "guided"):
            raise SegError(
                f"--arch {getattr(cfg, '_name', '')} has no memory: use seg_gru, seg_transformer or their small "
                "forms, or train it with --task translation."
            )
        if not from_checkpoint:
            check_resumed_options(cfg._get_parent(), model)
        return model

    @hook
    def build_criterion(self, cfg, from_checkpoint=False):
        """Return fairseq's criterion."""
        resolve(cfg, str(self.cfg.preset))
        return super().build_criterion(cfg, from_checkpoint)

    @hook
    def build_generator(self, models, args, *more, **kwargs):
        """Return fairseq's generator, after checking that the cache belongs to this model."""
        if not self.cfg.eval_bleu:  # whose generator is built before the model gets its parameters
            self.open_cache(models)
        return super().build_generator(models, args, *more, **kwargs)

    def open_cache(self, models: Sequence) -> EntryCache | None:
        """Open the cache of --memory-cache for a model, on its device and with its number type."""
        if not self.cfg.memory_cache or self.cfg.memory_k == 0:
            return None
        if len(models) > 1:
            raise SegError("--memory-cache belongs to one model: leave it out for an ensemble, or use seg-average.")
        if self.frozen is None or not self.frozen.serves(models[0]):
            options = str(self.cfg.memory_cache_type), parse_size(self.cfg.memory_cache_size)
            self.frozen = EntryCache(models[0], self.cfg.memory_cache, *options)
        return self.frozen

    # ------------------------------------------------------------------ data

    @cached_property
    def protections(self) -> tuple[Protection, Protection] | None:
        """How tokens of source and target are protected, None if they are not."""
        return self.data_bin().protections

    def sequences(self, sentences: Sequence[np.ndarray]) -> Sequences:
        """Return sentences of ids, with or without eos, as a source of pairs takes them."""
        if self.protections is None:
            return Sequences.from_rows(sentences)
        rows = [self.src_dict.split(sentence.tolist()) for sentence in sentences]
        return Sequences.from_rows(row for row, _ in rows).with_values(Values.from_rows(values for _, values in rows))

    def target_text(self, tokens: Iterable[int]) -> str:
        """Return the text of a translation that `inference_step` returned."""
        return self.spellings.target.text(*split_values(self.tgt_dict, tokens))

    @property
    def wanted(self) -> Wanted:
        """Return which pairs the options ask for."""
        cfg = self.cfg
        selection = Selection(cfg.memory_k, str(cfg.memory_select), cfg.memory_min_score)
        return Wanted(selection, cfg.memory, str(cfg.memory_exact), cfg.terms, cfg.terms_subwords)

    def data_bin(self, folder: str | None = None) -> DataBin:
        """Return the data folder, by default the first, in the task's direction."""
        folder = folder or utils.split_paths(self.cfg.data)[0]
        return DataBin(folder, self.cfg.source_lang, self.cfg.target_lang)

    @hook
    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load a split with its retrieved pairs, if --memory-k asks for any."""
        paths = utils.split_paths(self.cfg.data)
        if split != self.cfg.train_subset:
            paths = paths[:1]
        data = self.data_bin(paths[(epoch - 1) % len(paths)])
        # Both refuse damaged files; training also needs the target.
        sides = (data.pair if split == self.cfg.train_subset else data.sides)(split, combine)
        order = order_of_parts(data.part_sizes(split, combine), combine, self.cfg.upsample_primary)
        logger.info("%s %s %s-%s %d examples", data.folder, split, data.source_lang, data.target_lang, len(order))
        # fairseq passes task_cfg when it translates or validates, but not when it trains
        may_search = kwargs.get("task_cfg") is not None
        retrieved = self.retrieve_for_split(data, split, may_search) if self.cfg.memory_k > 0 else None
        logger.info(memory_line(split, self.cfg.memory_k, str(self.cfg.memory_select), retrieved))
        # fairseq's load_langpair_dataset would do the rest, but open the files once more.
        source = Tokens(sides[0], order, self.cfg.max_source_positions - 1 if self.cfg.truncate_source else None)
        target = None if sides[1] is None else Tokens(sides[1], order)
        alignments = str(data.folder / f"{split}.align.{data.source_lang}-{data.target_lang}")
        self.datasets[split] = SegDataset(
            source,
            source.sizes,
            self.src_dict,
            target,
            None if target is None else target.sizes,
            self.tgt_dict,
            left_pad_source=False,
            left_pad_target=False,
            shuffle=split != "test",
            align_dataset=data_utils.load_indexed_dataset(alignments, None) if self.cfg.load_alignments else None,
            pad_to_multiple=self.cfg.required_seq_len_multiple,
            retrieved=retrieved,
            valued=self.protections is not None and (may_search or split != self.cfg.train_subset),
        )

    def retrieve_for_split(self, data: DataBin, split: str, may_search: bool) -> ExamplePairs:
        """Return the pairs of a split's sentences, and log how many there are."""
        if os.pathsep in self.cfg.data or self.cfg.upsample_primary > 1:
            raise SegError(
                "A memory needs one data folder and no --upsample-primary: leave out the others, or use --memory-k 0."
            )
        source = open_for_split(data, split, self.wanted, may_search)
        sentences, _ = data.sides(split)
        retrieved = self.example_pairs(sentences, source.retrieve(sentences), scored=False)
        per_sentence = float(retrieved.counts.mean()) if len(retrieved.counts) else 0.0
        logger.info(
            "memory: K=%s, select=%s, %s | %s: %.2f pairs per sentence, %d sentences without",
            self.cfg.memory_k,
            self.cfg.memory_select,
            source.signature,
            split,
            per_sentence,
            (retrieved.counts == 0).sum(),
        )
        return retrieved

    def example_pairs(
        self, sentences: Sentences, found: RankedPairs, texts: Sequence[str] | None = None, scored: bool = True
    ) -> ExamplePairs:
        """Return what was found for sentences, without the pairs that are too long for the model."""
        assert found.table is not None
        lengths = np.stack([side.lengths[found.ids] for side in (found.table.source, found.table.target)])
        fits = np.all(lengths + 1 <= np.array([self.max_positions()]).T, axis=0)
        if not fits.all():
            logger.info("%d retrieved pairs are too long for the model and are left out", (~fits).sum())
        exact = exact_pairs(sentences, found, self.wanted, texts)
        return ExamplePairs(found if fits.all() else found.keep(fits), exact, bool(self.cfg.memory_cache), scored)

    @cached_property
    def live(self) -> PairSource:
        """Live retrieval with the task's options, opened with the first typed sentence."""
        source = open_live(self.data_bin(), self.wanted)
        logger.info("memory: K=%s, select=%s, %s", self.cfg.memory_k, self.cfg.memory_select, source.signature)
        return source

    @hook
    def build_dataset_for_inference(self, src_tokens, src_lengths, constraints=None) -> SegDataset:
        """Return typed sentences, a buffer at a time, with pairs retrieved now."""
        self.warned = self.warned and is_fairseq_command()  # a buffer is the whole call, but not the whole input
        dataset = self.sentence_dataset(src_tokens, self.live if self.cfg.memory_k > 0 else None, constraints)
        # fairseq-interactive passes on only the symbols of a sentence: inference_step finds the rest here
        if dataset.retrieved is not None:
            places = {tuple(tokens.tolist()): index for index, tokens in enumerate(src_tokens)}
            self.typed = dataset.retrieved, places
        return dataset

    def sentence_dataset(
        self,
        sentences: Sequence[Tensor],
        source: PairSource | None,
        constraints=None,
        first: int = 0,
        texts: Sequence[str] | None = None,
    ) -> SegDataset:
        """Return sentences (token ids with eos) with the pairs that a source gives them, or without any.

        The `texts` of the sentences, if known, decide which pair is an exact match.
        """
        if not self.warned and any(mostly_unknown(sentence[:-1].numpy()) for sentence in sentences):
            self.warned = True
            logger.warning(
                "Most symbols of a sentence are not in the model's dictionary: check its language, and cut it into the "
                "model's symbols (seg-subword encode) or name the subword model (seg-model --spm-source)."
            )
        retrieved = None
        if source is not None:
            symbols = self.sequences([sentence.numpy() for sentence in sentences])
            retrieved = self.example_pairs(symbols, source.retrieve(symbols, first), texts)
        return SegDataset(
            sentences,
            [len(sentence) for sentence in sentences],
            self.source_dictionary,
            tgt_dict=self.target_dictionary,
            left_pad_source=False,
            constraints=constraints,
            retrieved=retrieved,
        )

    def with_typed_pairs(self, sample: dict) -> dict:
        """Add the pairs that were retrieved for typed sentences to their sample."""
        if self.typed is None:
            return sample
        retrieved, places = self.typed
        sentences = source_symbols(sample)
        indices = [places[symbols] for symbols in sentences]
        exact = [retrieved.exact_target(index) for index in indices]
        plain = [split_values(self.src_dict, symbols)[0] for symbols in sentences]
        pairs = retrieved.collate([retrieved.row(index) for index in indices], plain)
        if pairs is not None:
            device = sample["net_input"]["src_tokens"].device
            pairs = utils.apply_to_sample(lambda tensor: tensor.to(device), pairs)
            sample = {**sample, "net_input": {**sample["net_input"], "pairs": pairs}}
        return {**sample, "exact": exact}

    def max_positions(self) -> tuple[int, int]:
        """Return the most symbols that options and model allow on each side, eos included."""
        source, target = map(min, zip(super().max_positions(), self.model_positions, strict=True))
        return source, target

    def filter_indices_by_size(self, indices, dataset, max_positions=None, ignore_invalid_inputs=False):
        """Drop over-long sentences in training only: every other sentence is translated."""
        if not ignore_invalid_inputs:
            return indices
        return super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)

    def get_checkpoint_dict(self) -> dict[str, dict]:
        """Return what fairseq saves of the task in a checkpoint: the state of --patience."""
        return {type(self).__name__: {name: float(value) for name, value in patience().items()}}

    def set_checkpoint_dict(self, saved: dict) -> None:
        """Let --patience count on where it was."""
        patience().update(saved)

    # ----------------------------------------------------------------- steps

    @hook
    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        """Train on a batch, with fewer pairs if --memory-sample-k is set."""
        pairs = sample["net_input"].get("pairs")
        if self.cfg.memory_sample_k and pairs is not None:
            # Drawn here and not in the data loader, whose workers persist and do not see a new epoch.
            k = random.Random(f"{self.cfg.seed} {update_num}").randint(0, self.cfg.memory_k)
            sample = {**sample, "net_input": {**sample["net_input"], "pairs": limit(pairs, k)}}
        sample = self.with_passes(sample, model)
        result = super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)
        refuse_nan_on_any_rank(result[0], sample)
        return result

    def with_passes(self, sample: dict, model) -> dict:
        """Add the passes of a frozen translator over sentences and pairs to a batch, if a cache keeps them."""
        if not self.cfg.memory_cache or not sample:
            return sample
        model = getattr(model, "module", model)  # of distributed training
        if self.passes is None:
            options = str(self.cfg.memory_cache_type), parse_size(self.cfg.memory_cache_size)
            self.passes = PassCache(model, self.cfg.memory_cache, *options)
        more: dict[str, Any] = {"kept": self.passes.read_sentences(sample)}
        pairs = sample["net_input"].get("pairs")
        if pairs is not None and model.decoder.memory.keys.needs_pass:
            more["of_pairs"] = self.passes.read(pairs).passed
        return {**sample, "net_input": {**sample["net_input"], **more}}

    @hook
    def valid_step(self, sample, model, criterion):
        """Validate on a batch."""
        if sample["target"] is None:
            raise SegError("The validation set has no target side: run fairseq-preprocess with both languages.")
        self.validating = True
        try:
            result = super().valid_step(self.with_passes(sample, model), model, criterion)
        finally:
            self.validating = False
        refuse_nan_on_any_rank(result[0], sample)
        return result

    @hook
    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        """Return fairseq's hypotheses, or the target of an exact match with --memory-exact copy.

        Reserved symbols have their values then, in the hypotheses as in the sample: see `ValuedDictionary`.
        """
        given, values = sample, sample.get("values")
        tokens = sample["net_input"]["src_tokens"]
        if values is not None:  # of a split, of which fairseq prints sources and references
            tokens = with_values(self.src_dict, tokens, values[0])
            sample = {**sample, "net_input": {**sample["net_input"], "src_tokens": tokens}}
        texts = BatchTexts(self.spellings, sample)
        hypotheses = self.translate(generator, models, sample, prefix_tokens, constraints, texts)
        for row, beam in enumerate(hypotheses):
            for hypothesis in beam:
                hypothesis["tokens"] = texts.restored(row, hypothesis["tokens"])
        if values is not None:
            given["net_input"]["src_tokens"] = tokens
            if given.get("target") is not None:
                given["target"] = with_values(self.tgt_dict, given["target"], values[1])
        return hypotheses

    def translate(self, generator, models, sample, prefix_tokens, constraints, texts: BatchTexts) -> list[list[dict]]:
        """Return the hypotheses of a batch, or the targets of exact matches, as the model sees them."""
        if "id" not in sample:  # from fairseq-interactive; every other sample has its pairs already
            sample = self.with_typed_pairs(sample)
        plain = plain_tokens(self.src_dict, sample["net_input"]["src_tokens"])
        sample = {**sample, "net_input": {**sample["net_input"], "src_tokens": plain}}
        lengths = sample["net_input"]["src_lengths"].tolist()
        exact = sample.get("exact") or [None] * len(lengths)
        # An empty line, which is an eos alone, stays empty.
        exact = [NOTHING if length <= 1 else target for length, target in zip(lengths, exact, strict=True)]
        hypotheses = [[] if target is None else [as_hypothesis(as_tokens(target))] for target in exact]
        if not all(hypotheses):
            searched = self.search(generator, models, sample, prefix_tokens, constraints)
            hypotheses = [known or beam for known, beam in zip(hypotheses, searched, strict=True)]
        if self.check is not None and not self.validating:
            rows = [row for row, target in enumerate(exact) if target is None]
            self.check_output(rows, hypotheses, generator, models, sample, prefix_tokens, constraints, texts)
        return hypotheses

    @property
    def checks_tokens(self) -> bool:
        """Whether the tokens of translations are checked."""
        check = str(self.cfg.memory_check)
        return check == "on" or (check == "auto" and isinstance(self.src_dict, ValuedDictionary))

    def check_output(self, rows, beams, generator, models, sample, prefix_tokens, own_constraints, texts) -> None:
        """Check the translations of some rows of a batch, and repair them in place."""

        def again(rows: Sequence[int], constraints: list[list[Tensor]] | None) -> list[list[dict]]:
            part = rows_of(sample, rows, memory=constraints is not None)
            prefix, given = (None if x is None else x[rows] for x in (prefix_tokens, own_constraints))
            if constraints is None:
                return self.search(generator, models, part, prefix, given)
            with constrained_search(generator) as able:
                packed = pack_constraints(constraints).to(part["net_input"]["src_tokens"])
                if not able or given is not None:
                    return [[] for _ in rows]
                return self.search(generator, models, part, prefix, packed)

        assert self.check is not None
        width = sample["net_input"]["src_tokens"].size(1)
        longest = int(min(generator.max_len_a * width + generator.max_len_b, generator.max_len - 1))
        self.check(rows, beams, texts, longest, again)

    @cached_property
    def spellings(self) -> Spellings:
        """The spelling of both sides."""
        return Spellings(self)

    def search(self, generator, models, sample, prefix_tokens, constraints) -> list[list[dict]]:
        """Return fairseq's finished hypotheses, with alignments if its options need them."""
        cache, pairs = self.open_cache(models), sample["net_input"].get("pairs")
        if cache is not None and pairs is not None:
            net_input = {name: value for name, value in sample["net_input"].items() if name != "pairs"}
            sample = {**sample, "net_input": {**net_input, "slots": cache.write(pairs)}}
        # Without "id", which fairseq's diverse beam search mistakes for a row of the batch.
        anonymous = {k: v for k, v in sample.items() if k != "id"}
        try:
            hypotheses = super().inference_step(generator, models, anonymous, prefix_tokens, constraints)
        finally:  # if every symbol is NaN, fairseq's search fails with an assertion
            for model in models:
                refuse_nan(model.decoder.pop_nan(), sample)
        for hypothesis in (hypothesis for beam in hypotheses for hypothesis in beam):
            # For --replace-unk, where fairseq leaves this empty: the source position with the most attention.
            if torch.is_tensor(hypothesis["alignment"]):
                hypothesis["alignment"] = hypothesis["attention"].argmax(dim=0)
        return hypotheses


def check_frozen(cfg, whole, task_cfg: SegTranslationConfig) -> None:
    """Refuse --freeze-translator where there is no translator to freeze, or where its passes do not suffice."""
    if whole is None:
        return
    last = os.path.join(whole.checkpoint.save_dir, "checkpoint_last.pt")
    start = whole.checkpoint.finetune_from_model or whole.checkpoint.restore_file != "checkpoint_last.pt"
    if not start and not os.path.exists(last):
        raise SegError("--freeze-translator needs a trained translator: name its --finetune-from-model CHECKPOINT.")
    smoothing = getattr(whole.criterion, "label_smoothing", 0)
    if task_cfg.memory_cache and (str(cfg.fusion) != "shallow" or smoothing or task_cfg.eval_bleu):
        raise SegError(
            "--memory-cache keeps too little of a frozen translator for --fusion deep or both, --label-smoothing and "
            "--eval-bleu: leave these out, or --memory-cache."
        )
    if task_cfg.memory_k == 0:
        raise SegError("--freeze-translator leaves nothing to learn with --memory-k 0: give another.")


def one_thread() -> None:
    """Let fairseq's commands use one thread, unless the user sets OMP_NUM_THREADS.

    OpenMP's threads spin while they wait for each other. On a busy machine this makes a command several times slower.
    """
    if is_fairseq_command() and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def memory_line(split: str, k: int, select: str, retrieved: ExamplePairs | None) -> str:
    """Return a line of JSON for programs that read the log, such as seg-evaluate."""
    counts = np.zeros(1) if retrieved is None or not len(retrieved.counts) else retrieved.counts
    facts = {"split": split, "k": k, "select": select, "pairs_per_sentence": float(counts.mean())}
    return json.dumps({"seg_memory": facts})


def as_hypothesis(target: Tensor) -> dict:
    """Return a target (T,) in the form of fairseq's hypotheses, as if found with certainty."""
    none = target.new_zeros(0)
    return {
        "tokens": target,
        "score": torch.tensor(0.0),
        "attention": none,
        "alignment": none,
        "positional_scores": torch.zeros(len(target)),
    }


def refuse_nan(x: Tensor | None, sample: dict) -> None:
    """Raise an error that names the batch if its decoding gave NaN."""
    if x is not None and torch.isnan(x).any():
        ids = (
            sample["id"].tolist()
            if "id" in sample
            else f"of {sample['net_input']['src_tokens'].size(0)} typed sentences"
        )
        raise SegError(f"NaN in the batch {ids}: lower --lr or --clip-norm, or check these sentences.")


def refuse_nan_on_any_rank(loss: Tensor, sample: dict) -> None:
    """Raise an error on all ranks if the loss of one is NaN: the others would wait for its gradients."""
    nan = torch.isnan(loss.detach()).any().float()
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(nan, op=dist.ReduceOp.MAX, group=distributed_utils.get_data_parallel_group())
    refuse_nan(loss, sample)
    if nan.item():
        raise SegError("NaN in the batch of another process: its message says which.")
