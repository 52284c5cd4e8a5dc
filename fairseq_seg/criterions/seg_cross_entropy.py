"""The negative log likelihood of the mixture (Eq. 6); the log shows how the memory is used.

The mixture alone trains a guided translator slowly. Where the memory holds the right symbol, the generator gets little
gradient and forgets how to translate without a memory. Where the gate is nearly closed, the match learns next to
nothing about which slot would have been right. Two additional weighted losses train these two parts:

    loss = - sum_t log p(y_t) - w sum_t log p_gen(y_t) - v sum_{t: y_t in the memory} log p_copy(y_t)

w is --generator-weight, v is --copy-weight. With shallow fusion p_gen does not depend on the memory, so the second sum
is the loss of the plain translator. With deep fusion p is p_gen, and there is no second sum. The third sum trains the
match there too, because a state read from the wrong slot closes the gate within a hundred updates. Both probabilities
are already computed, so neither loss costs anything.
"""

import math
from dataclasses import dataclass, field
from typing import Optional

import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from omegaconf import II
from torch import Tensor
from torch.nn import functional as F

from fairseq_seg.errors import SegError, hook
from fairseq_seg.modules.fusion import sum_log_probs, target_log_prob
from fairseq_seg.modules.memory import SlotRead
from fairseq_seg.tasks.presets import by_preset


@dataclass
class SegCrossEntropyConfig(FairseqDataclass):
    """The options of the loss."""

    label_smoothing: float = field(
        default=0.0,
        metadata={"help": "share of the mixture's probability spread over the vocabulary; 0: none, as in the paper"},
    )
    generator_weight: Optional[float] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "weight of a second loss, on the generator alone, when the output is a mixture: keeps it a good "
            "translator of sentences that resemble nothing in the memory" + by_preset("generator_weight")
        },
    )
    copy_weight: Optional[float] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "weight of a third loss, on the copies alone, at target symbols that the memory holds: the match "
            "also learns where the gate is closed" + by_preset("copy_weight")
        },
    )
    sentence_avg: bool = II("optimization.sentence_avg")


LEAST = 1e-6  # added to p_copy in the copy loss, so that a slot with almost no weight gets a bounded gradient
FIGURES = ("gate", "present", "copied", "entropy", "lambda")  # of the memory, in the log


def in_slots(read: SlotRead, target: Tensor) -> Tensor:
    """Return where the slots hold the target symbol; target (B, T) -> (B, T)."""
    return (read.symbols.unsqueeze(1) == target.unsqueeze(2)).any(-1)


def memory_figures(copy_mass: Tensor, read: SlotRead, target: Tensor, real: Tensor) -> dict[str, Tensor]:
    """Return sums over the real target symbols of sentences that have slots.

    Args:
        copy_mass: p_copy(target), (B, T). target: (B, T). real: (B, T), True at real symbols.
    """
    real = real & ~torch.isneginf(read.gate)
    gate = torch.sigmoid(read.gate)
    present = in_slots(read, target)
    entropy = torch.special.entr(read.weights).sum(-1)
    figures = {"gate": gate, "present": present.float(), "copied": gate * copy_mass, "entropy": entropy}
    sums = {f"memory_{name}": (x * real).sum().detach() for name, x in figures.items()}
    return {"memory_ntokens": real.float().sum()} | sums


@register_criterion("seg_cross_entropy", dataclass=SegCrossEntropyConfig)
class SegCrossEntropy(FairseqCriterion):
    """Cross entropy on the mixture. Training never builds a copy distribution over the vocabulary."""

    @hook
    def __init__(
        self,
        task,
        sentence_avg: bool,
        label_smoothing: float,
        generator_weight: float | None = 0.0,
        copy_weight: float | None = 0.0,
    ):
        super().__init__(task)
        for name, weight in (("--generator-weight", generator_weight), ("--copy-weight", copy_weight)):
            if weight is None:  # the task resolves the preset
                raise SegError("--criterion seg_cross_entropy needs --task seg_translation: give both, or neither.")
            if weight < 0:
                raise SegError(f"{name} {weight} is negative: give 0 or more.")
        self.sentence_avg = sentence_avg
        self.label_smoothing = label_smoothing
        self.generator_weight = generator_weight
        self.copy_weight = copy_weight

    def forward(self, model, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        logits, extra = model(**sample["net_input"])
        target = sample["target"]
        real = target.ne(self.padding_idx)
        read, log_gen = extra["copy"], None
        if logits is None:
            generated = extra["generated"]
        elif self.label_smoothing > 0:
            log_gen = F.log_softmax(logits, dim=-1, dtype=torch.float32)
            generated = log_gen.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        else:
            generated = -F.cross_entropy(logits.float().flatten(0, 1), target.flatten(), reduction="none")
            generated = generated.view_as(target)
        log_p = generated
        # Needed even if this batch has no memory, because fairseq sums the figures of all ranks key by key.
        figures = {f"memory_{name}": torch.zeros_like(log_p[0, 0]) for name in ("ntokens", *FIGURES)}
        if extra["read"] is not None:
            mixed, copy_mass = target_log_prob(generated, extra["read"], target)
            log_p = generated if read is None else mixed
            figures = memory_figures(copy_mass, extra["read"], target, real)
            figures["memory_lambda"] = figures["memory_ntokens"] * extra["lambda"].detach().float().squeeze()
        nll_loss = -(log_p * real).sum()
        loss = nll_loss
        if self.label_smoothing > 0:
            smooth = log_gen.sum(-1) if read is None else sum_log_probs(log_gen, read)
            rest = self.label_smoothing / (logits.size(-1) - 1)  # as fairseq's label_smoothed_cross_entropy
            loss = (1.0 - self.label_smoothing - rest) * nll_loss - rest * (smooth * real).sum()
        if read is not None and self.generator_weight > 0:
            loss = loss - self.generator_weight * (generated * real).sum()
        if extra["read"] is not None and self.copy_weight > 0:
            present = in_slots(extra["read"], target) & real
            loss = loss - self.copy_weight * (torch.log(copy_mass + LEAST) * present).sum()
        sample_size = target.size(0) if self.sentence_avg else sample["ntokens"]
        logging_output = {
            "loss": loss.detach(),
            "nll_loss": nll_loss.detach(),
            "plain_nll": -(generated * real).sum().detach(),
            "ntokens": sample["ntokens"],
            "nsentences": target.size(0),
            "sample_size": sample_size,
            **figures,
        }
        return loss, sample_size, logging_output

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict]) -> None:
        def total(key: str):
            return sum(log.get(key, 0) for log in logging_outputs)

        sample_size, ntokens = total("sample_size"), total("ntokens")
        metrics.log_scalar("loss", total("loss") / sample_size / math.log(2), sample_size, round=3)
        metrics.log_scalar("nll_loss", total("nll_loss") / ntokens / math.log(2), ntokens, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        slots_seen = total("memory_ntokens")
        if slots_seen > 0:
            metrics.log_scalar("plain_nll", total("plain_nll") / ntokens / math.log(2), ntokens, round=3)
            for name in FIGURES:
                metrics.log_scalar(name, total(f"memory_{name}") / slots_seen, slots_seen, round=3)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
