"""The task `seg_translation`: fairseq's translation task, with retrieved pairs beside every sentence."""

import logging
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from fairseq import utils
from fairseq.data import data_utils, indexed_dataset
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask, load_langpair_dataset
from omegaconf import II
from torch import Tensor

from ..cache.frozen import FrozenMemory
from ..cache.header import parse_size
from ..cache.rows import TYPES

# fairseq imports the tasks and models of a user-dir by itself, the criterions not
from ..criterions import seg_cross_entropy  # noqa: F401
from ..data.attached import AttachedMemory, attached_path, fingerprint, keep
from ..data.binarized import check_sides, load_side, shard_prefixes
from ..data.live import LiveRetrieval, Retrieved, RetrievedPairs, retrieve_apart
from ..data.memories import TRAIN, check_memories, check_subwords
from ..data.pair_memory import PairMemory, limit
from ..data.seg_dataset import SegDataset
from ..errors import SegError
from ..serialization import allow_fairseq_checkpoints

logger = logging.getLogger(__name__)
allow_fairseq_checkpoints()

Symbols = tuple[int, ...]  # of a sentence


@dataclass
class SegTranslationConfig(TranslationConfig):
    left_pad_source: bool = field(default=False, metadata={"help": "not supported: sentences are padded on the right"})
    memory_k: int = field(
        default=2,
        metadata={
            "help": "retrieved pairs a sentence; 0 is the plain translator. May differ between training and test"
        },
    )
    memory_select: ChoiceEnum(["topk", "adaptive"]) = field(
        default="topk",
        metadata={"help": "the --memory-k most similar pairs, or as many as cover the source's symbols (Alg. 1)"},
    )
    memory_min_score: float = field(
        default=0.0, metadata={"help": "leave out pairs whose fuzzy score (0 to 1) is lower: weak matches can mislead"}
    )
    memory: str = field(
        default=TRAIN,
        metadata={
            "help": "translate with memories made by seg-memory: client.mem,domain.mem:0.05 puts the pairs of both in "
            "one ranking, scores of the second lowered by 0.05; train names the training set"
        },
    )
    memory_exact: ChoiceEnum(["model", "copy", "ignore"]) = field(
        default="model",
        metadata={
            "help": "where a memory holds the very sentence: let the model decide, return the memory's target as it is "
            "(not from a memory with a penalty), or leave such pairs out"
        },
    )
    memory_sample_k: bool = field(
        default=False,
        metadata={
            "help": "train each batch with a K drawn from 0 to --memory-k: for a model that is used with many Ks, and "
            "that still translates where the memory has nothing"
        },
    )
    memory_cache: str = field(
        default="",
        metadata={
            "help": "translate with a folder that keeps what the model makes of a retrieved pair, so that it is made "
            "once; for one checkpoint, see seg-cache"
        },
    )
    memory_cache_type: ChoiceEnum(["auto", *TYPES]) = field(
        default="auto",
        metadata={
            "help": "the cache's numbers: fp32 (exact), fp16 (half of it) or int8 (a quarter); auto: as the cache has "
            "them, fp32 in a new one"
        },
    )
    memory_cache_size: str = field(
        default="4G",
        metadata={"help": "what the cache may take on disk (500M, 2G); then the pairs unused for longest go"},
    )
    seed: int = II("common.seed")


@register_task("seg_translation", dataclass=SegTranslationConfig)
class SegTranslationTask(TranslationTask):
    """Translation with a memory of retrieved pairs (Gu et al., AAAI 2018)."""

    cfg: SegTranslationConfig

    def __init__(self, cfg: SegTranslationConfig, src_dict, tgt_dict):
        super().__init__(cfg, src_dict, tgt_dict)
        self.sides: dict[str, tuple] = {}  # of memories, by folder
        self.typed: tuple[PairMemory, dict] | None = None  # what was retrieved for the last buffer of typed sentences
        self.exact: dict[Symbols, Tensor] = {}  # by source symbols, the targets that --memory-exact copy returns
        self.frozen: FrozenMemory | None = None  # the cache of --memory-cache, once there is a model

    @classmethod
    def setup_task(cls, cfg: SegTranslationConfig, **kwargs):
        data = utils.split_paths(cfg.data)[0]
        if not os.path.isdir(data):
            raise SegError(f"The data folder {data} does not exist: make it with fairseq-preprocess --destdir {data}.")
        if cfg.left_pad_source or cfg.left_pad_target:
            raise SegError("seg_translation pads on the right: leave out --left-pad-source and --left-pad-target.")
        if cfg.memory_k < 0:
            raise SegError(f"--memory-k {cfg.memory_k} must be 0 or more.")
        parse_size(cfg.memory_cache_size)
        if cfg.source_lang is None or cfg.target_lang is None:
            cfg.source_lang, cfg.target_lang = data_utils.infer_language_pair(data)
        for side, lang in (("source", cfg.source_lang), ("target", cfg.target_lang)):
            if lang is None:
                raise SegError(f"The languages of {data} cannot be inferred: name them with -s and -t.")
            if not os.path.isfile(os.path.join(data, f"dict.{lang}.txt")):
                raise SegError(
                    f"{data} holds no dict.{lang}.txt: is {lang} the {side} language, and was fairseq-preprocess run?"
                )
        task = super().setup_task(cfg, **kwargs)
        if cfg.memory != TRAIN:
            dictionaries = task.src_dict.symbols, task.tgt_dict.symbols
            check_memories(cfg.memory, (cfg.source_lang, cfg.target_lang), dictionaries)
        return task

    def build_bpe(self, args):
        """fairseq-interactive's way to cut typed sentences, which must be the memories' way too."""
        model = getattr(args, "sentencepiece_model", None)
        if model:
            check_subwords(self.cfg.memory, model)
        return super().build_bpe(args)

    def build_model(self, cfg, from_checkpoint=False):
        if self.cfg.memory_cache and not from_checkpoint:
            raise SegError("--memory-cache is for a model that does not change: leave it out to train.")
        return super().build_model(cfg, from_checkpoint)

    def build_generator(self, models, args, *more, **kwargs):
        """fairseq's, once it is sure that the cache is one of this model."""
        if not self.cfg.eval_bleu:  # whose generator is built before the model gets its parameters
            self.open_cache(models)
        return super().build_generator(models, args, *more, **kwargs)

    def open_cache(self, models: Sequence) -> FrozenMemory | None:
        """The cache of --memory-cache for a model as it is, on its device and with its numbers."""
        if not self.cfg.memory_cache or self.cfg.memory_k == 0:
            return None
        if len(models) > 1:
            raise SegError("--memory-cache is of one model: leave it out for an ensemble, or average (seg-average).")
        if self.frozen is None or not self.frozen.serves(models[0]):
            options = str(self.cfg.memory_cache_type), parse_size(self.cfg.memory_cache_size)
            self.frozen = FrozenMemory(models[0], self.cfg.memory_cache, *options)
        return self.frozen

    # ------------------------------------------------------------------ data

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load a split with the memory that seg-attach put beside it, if --memory-k asks for one."""
        paths = utils.split_paths(self.cfg.data)
        if split != self.cfg.train_subset:
            paths = paths[:1]
        data = paths[(epoch - 1) % len(paths)]
        source, target = self.cfg.source_lang, self.cfg.target_lang
        prefixes = shard_prefixes(data, split, source, target)
        check_sides(prefixes, source, target, target_needed=split == self.cfg.train_subset)
        pairs = load_langpair_dataset(
            data,
            split,
            source,
            self.src_dict,
            target,
            self.tgt_dict,
            combine=combine,
            dataset_impl=self.cfg.dataset_impl or indexed_dataset.infer_dataset_impl(prefixes[0] + source),
            upsample_primary=self.cfg.upsample_primary,
            left_pad_source=False,
            left_pad_target=False,
            max_source_positions=self.cfg.max_source_positions,
            max_target_positions=self.cfg.max_target_positions,
            load_alignments=self.cfg.load_alignments,
            truncate_source=self.cfg.truncate_source,
            shuffle=(split != "test"),
            pad_to_multiple=self.cfg.required_seq_len_multiple,
        )
        # fairseq hands task_cfg over where it translates or validates, not where it trains
        live = kwargs.get("task_cfg") is not None
        memory = self.load_memory(data, split, pairs, live) if self.cfg.memory_k > 0 else None
        self.datasets[split] = SegDataset.from_pairs(pairs, memory)

    def load_memory(self, data: str, split: str, pairs, live: bool) -> PairMemory:
        """The pairs that seg-attach retrieved for a split; where it did not, and `live`, retrieved now."""
        source, target = self.cfg.source_lang, self.cfg.target_lang
        if os.pathsep in self.cfg.data or self.cfg.upsample_primary > 1:
            raise SegError("A memory needs one data folder and no --upsample-primary; with several, use --memory-k 0.")
        path = attached_path(data, split, source, target)
        options = self.cfg.memory != TRAIN or str(self.cfg.memory_exact) != "model"
        if options and not live:
            raise SegError(
                "--memory and --memory-exact are for translation: to train, attach a memory with seg-attach."
            )
        if options or (live and not path.exists()):
            if not options:
                logger.info("%s does not exist: retrieving now, which seg-attach would do once for all", path)
            sentences = [pairs.src[index].numpy() for index in range(len(pairs))]
            found, retrieved = retrieve_apart(sentences, *self.live_arguments())
            memory = self.pair_memory(found.starts, found.ids, retrieved.source, retrieved.target)
            self.exact |= self.exact_matches(sentences, found, retrieved)
            signature = self.live_signature()
        else:
            attached = AttachedMemory.load(path)
            home = os.path.join(data, attached.memory_data) if attached.memory_data else data
            sides = self.memory_sides(home)
            attached.check(fingerprint(pairs.src, pairs.tgt), fingerprint(*sides))
            starts, ids = attached.select_all(self.cfg.memory_k, str(self.cfg.memory_select), self.cfg.memory_min_score)
            if len(ids) and ids.max() >= len(sides[0]):
                raise SegError(f"{path} names pairs that {home} does not have: run seg-attach again.")
            memory = self.pair_memory(starts, ids, *sides)
            signature = attached.signature
        logger.info(
            "memory: K=%s, select=%s, %s | %s: %.2f pairs a sentence, %d sentences without",
            self.cfg.memory_k,
            self.cfg.memory_select,
            signature,
            split,
            memory.counts.mean() if len(memory.counts) else 0,
            (memory.counts == 0).sum(),
        )
        return memory

    def memory_sides(self, home: str) -> tuple:
        """Source and target of the training set in `home`, opened once."""
        if home not in self.sides:
            langs = self.cfg.source_lang, self.cfg.target_lang
            shards = shard_prefixes(home, "train", *langs)
            dictionaries = self.src_dict, self.tgt_dict
            self.sides[home] = tuple(load_side(shards, *side) for side in zip(langs, dictionaries, strict=True))
        return self.sides[home]

    def pair_memory(self, starts: np.ndarray, ids: np.ndarray, source, target) -> PairMemory:
        """The pairs `ids` of a memory with these two sides, without those that are too long for the model."""
        fits = (np.stack([source.sizes, target.sizes])[:, ids] <= np.array([self.max_positions()]).T).all(0)
        if not fits.all():
            logger.info("%d retrieved pairs are longer than the model takes and are left out", (~fits).sum())
        symbols = self.tgt_dict.pad(), self.tgt_dict.eos()
        return PairMemory(*keep(starts, ids, fits), source, target, *symbols, cached=bool(self.cfg.memory_cache))

    def live_arguments(self) -> tuple:
        cfg = self.cfg
        data = utils.split_paths(cfg.data)[0]
        selection = cfg.memory_k, str(cfg.memory_select), cfg.memory_min_score
        memories = cfg.memory, str(cfg.memory_exact) == "ignore"
        return data, cfg.source_lang, cfg.target_lang, *selection, *memories

    def live_signature(self) -> str:
        return f"live:{self.cfg.memory}|exact:{self.cfg.memory_exact}"

    @cached_property
    def live(self) -> LiveRetrieval:
        """Retrieval with the task's options; opened with the first sentence that is typed."""
        logger.info("memory: K=%s, select=%s, %s", self.cfg.memory_k, self.cfg.memory_select, self.live_signature())
        return LiveRetrieval(*self.live_arguments())

    def build_dataset_for_inference(self, src_tokens, src_lengths, constraints=None) -> SegDataset:
        """Typed sentences, a buffer at a time, with pairs retrieved now."""
        memory = None
        if self.cfg.memory_k > 0:
            found = self.live.retrieve(src_tokens)
            memory = self.pair_memory(found.starts, found.ids, self.live.source, self.live.target)
            self.exact = self.exact_matches(src_tokens, found, self.live.pairs)
            # fairseq-interactive hands on a sentence's symbols and nothing else: inference_step finds the rest here
            rows = {tuple(tokens.tolist()): memory.row(index) for index, tokens in enumerate(src_tokens)}
            self.typed = memory, rows
        return SegDataset(
            src_tokens,
            src_lengths,
            self.source_dictionary,
            tgt_dict=self.target_dictionary,
            left_pad_source=False,
            constraints=constraints,
            memory=memory,
        )

    def exact_matches(self, sentences: Sequence, found: Retrieved, pairs: RetrievedPairs) -> dict[Symbols, Tensor]:
        """The targets to return as they are: of the sentences (with eos) whose best pair has the very source.

        An unknown symbol could stand for anything: no pair that has one is returned.
        """
        if str(self.cfg.memory_exact) != "copy":
            return {}
        exact = {}
        for sentence, first, end in zip(sentences, found.starts[:-1], found.starts[1:], strict=True):
            if first < end and found.scores[first] == 1:
                source, target = (side[found.ids[first]] for side in (pairs.source, pairs.target))
                symbols = tuple(source.tolist())
                if symbols == tuple(sentence.tolist()) and self.tgt_dict.unk() not in (*symbols, *target.tolist()):
                    exact[symbols] = target
        return exact

    def with_typed_memory(self, sample: dict) -> dict:
        """The sample with the memory that was retrieved for its typed sentences."""
        memory, rows = self.typed
        collated = memory.collate([rows[symbols] for symbols in source_symbols(sample)])
        if collated is None:
            return sample
        device = sample["net_input"]["src_tokens"].device
        collated = utils.apply_to_sample(lambda tensor: tensor.to(device), collated)
        return {**sample, "net_input": {**sample["net_input"], "memory": collated}}

    def filter_indices_by_size(self, indices, dataset, max_positions=None, ignore_invalid_inputs=False):
        """Training leaves out what is too long; every other sentence is translated, however long it is."""
        if not ignore_invalid_inputs:
            return indices
        return super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)

    # ----------------------------------------------------------------- steps

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        memory = sample["net_input"].get("memory")
        if self.cfg.memory_sample_k and memory is not None:
            # Drawn here and not in the data loader: its workers live on and never learn of a new epoch.
            k = random.Random(f"{self.cfg.seed} {update_num}").randint(0, self.cfg.memory_k)
            sample = {**sample, "net_input": {**sample["net_input"], "memory": limit(memory, k)}}
        result = super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)
        refuse_nan(result[0], sample)
        return result

    def valid_step(self, sample, model, criterion):
        if sample["target"] is None:
            raise SegError("The validation set has no target side: run fairseq-preprocess with both languages.")
        result = super().valid_step(sample, model, criterion)
        refuse_nan(result[0], sample)
        return result

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        """fairseq's search, or what a memory holds for the very sentence where --memory-exact copy asks for that."""
        if not self.exact:
            return self.search(generator, models, sample, prefix_tokens, constraints)
        targets = [self.exact.get(symbols) for symbols in source_symbols(sample)]
        hypotheses = [[] if target is None else [as_hypothesis(target)] for target in targets]
        if not all(hypotheses):
            searched = self.search(generator, models, sample, prefix_tokens, constraints)
            hypotheses = [exact or beam for exact, beam in zip(hypotheses, searched, strict=True)]
        return hypotheses

    def search(self, generator, models, sample, prefix_tokens, constraints) -> list[list[dict]]:
        """fairseq's finished hypotheses, with the memory of typed sentences and in the form that its options need."""
        if self.typed is not None and "memory" not in sample["net_input"]:
            sample = self.with_typed_memory(sample)
        cache, memory = self.open_cache(models), sample["net_input"].get("memory")
        if cache is not None and memory is not None:
            sample = {**sample, "net_input": {**sample["net_input"], "memory": cache.write(memory)}}
        # Without "id": fairseq's diverse beam search takes it for a row of the batch.
        anonymous = {k: v for k, v in sample.items() if k != "id"}
        try:
            hypotheses = super().inference_step(generator, models, anonymous, prefix_tokens, constraints)
        finally:  # where every symbol is NaN, fairseq's search ends in an assertion
            for model in models:
                refuse_nan(model.decoder.pop_nan(), sample)
        for hypothesis in (hypothesis for beam in hypotheses for hypothesis in beam):
            # For --replace-unk, where fairseq leaves this empty: the source position that each symbol looked at most.
            if torch.is_tensor(hypothesis["alignment"]):
                hypothesis["alignment"] = hypothesis["attention"].argmax(dim=0)
        return hypotheses


def source_symbols(sample: dict) -> list[Symbols]:
    """The symbols of a batch's sentences, eos included, as keys."""
    tokens, lengths = (sample["net_input"][name].tolist() for name in ("src_tokens", "src_lengths"))
    return [tuple(row[:length]) for row, length in zip(tokens, lengths, strict=True)]


def as_hypothesis(target: Tensor) -> dict:
    """A target (T,) as if a search had found it with certainty: the form of fairseq's finished hypotheses."""
    none = target.new_zeros(0)
    return {
        "tokens": target,
        "score": torch.tensor(0.0),
        "attention": none,
        "alignment": none,
        "positional_scores": torch.zeros(len(target)),
    }


def refuse_nan(x: Tensor | None, sample: dict) -> None:
    """End with a sentence that names the batch where a loss is NaN, or where decoding saw one."""
    if x is not None and torch.isnan(x).any():
        ids = (
            sample["id"].tolist()
            if "id" in sample
            else f"of {sample['net_input']['src_tokens'].size(0)} typed sentences"
        )
        raise SegError(f"NaN in the batch {ids}: lower --lr or --clip-norm, or look at these sentences.")
