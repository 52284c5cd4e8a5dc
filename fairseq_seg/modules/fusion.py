"""How what was read from the slots enters the output distribution (Eq. 5 and Eq. 6), in log space and fp32."""

import torch
from torch import Tensor
from torch.nn import functional as F

from fairseq_seg.modules.memory import SlotRead


def deep_fusion(state: Tensor, values: Tensor, read: SlotRead) -> Tensor:
    """Return zeta z~ + (1 - zeta) z (Eq. 5); state (B, T, H), values z' (B, S, H) -> (B, T, H)."""
    retrieved = torch.bmm(read.weights.type_as(values), values)
    return torch.lerp(state, retrieved, torch.sigmoid(read.gate).unsqueeze(-1).type_as(state))


def safe_log(p: Tensor) -> Tensor:
    """Return log p with log 0 = -inf and a gradient of 0, not NaN, there."""
    positive = p > 1e-30  # what is smaller counts as 0: its gradient 1/p could overflow, and infinity times 0 is NaN
    return torch.where(positive, torch.where(positive, p, 1.0).log(), float("-inf"))


def target_log_prob(log_gen: Tensor, read: SlotRead, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mixture at the target symbols alone (Eq. 6): no tensor of the size of the vocabulary.

    Args:
        log_gen: log p_gen(target), fp32, (B, T).
        target: (B, T).

    Returns:
        log p(target) and p_copy(target), both (B, T).
    """
    same = read.symbols.unsqueeze(1) == target.unsqueeze(2)  # (B, T, S)
    p_copy = (read.weights * same).sum(-1)
    log_copy = F.logsigmoid(read.gate) + safe_log(p_copy)
    return torch.logaddexp(F.logsigmoid(-read.gate) + log_gen, log_copy), p_copy


def copy_correction(generated: Tensor, read: SlotRead) -> Tensor:
    """Return what the copies add to a slot symbol's log probability: log(1 + zeta p_copy / (1 - zeta) p_gen).

    generated holds log((1 - zeta) p_gen) of the slots' symbols, (B, T, S) -> (B, T, S). A symbol that several slots
    hold counts once, at its first slot; the others have no mass left and give 0.
    """
    first = read.first.unsqueeze(1).expand_as(read.weights)
    p_copy = torch.zeros_like(read.weights).scatter_add_(-1, first, read.weights)
    return F.softplus(F.logsigmoid(read.gate).unsqueeze(-1) + safe_log(p_copy) - generated)


def mixture_log_probs(log_gen: Tensor, read: SlotRead) -> Tensor:
    """Return log p of every symbol (Eq. 6); log_gen (B, T, V) fp32 -> (B, T, V).

    Symbols that no slot holds get log((1 - zeta) p_gen); only the S slot symbols need more than an addition.
    """
    keep = F.logsigmoid(-read.gate).unsqueeze(-1)
    symbols = read.symbols.unsqueeze(1).expand_as(read.weights)
    correction = copy_correction(log_gen.gather(-1, symbols) + keep, read)
    return (log_gen + keep).scatter_add_(-1, symbols, correction)


def log_probs(logits: Tensor, copies: SlotRead | None) -> Tensor:
    """Return the output distribution: the generator's softmax, mixed with copies, fp32; (B, T, V) -> (B, T, V)."""
    log_gen = F.log_softmax(logits, dim=-1, dtype=torch.float32)
    return log_gen if copies is None else mixture_log_probs(log_gen, copies)


def sum_log_probs(log_gen: Tensor, read: SlotRead) -> Tensor:
    """Return the sum of the mixture's log p over the vocabulary, for label smoothing; log_gen (B, T, V) -> (B, T).

    Sum of log((1 - zeta) p_gen), plus a correction at the distinct slot symbols; no second tensor of size (B, T, V).
    """
    keep = F.logsigmoid(-read.gate)
    symbols = read.symbols.unsqueeze(1).expand_as(read.weights)
    correction = copy_correction(log_gen.gather(-1, symbols) + keep.unsqueeze(-1), read)
    return log_gen.sum(-1) + log_gen.size(-1) * keep + correction.sum(-1)
