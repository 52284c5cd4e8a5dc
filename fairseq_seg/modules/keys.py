"""What a slot is found by: four kinds of keys, each with its content score, the first part of Eq. 7.

    ContextKeys       c_t M c'_tau                      the paper's
    ContextStateKeys  c_t M c'_tau + z_t N z'_tau       beyond the paper
    TargetKeys        z_t M k'_tau                      the CopyNet-style baseline
    TargetContextKeys c_t M k'_tau                      the same, queried as the paper's keys are

A kind derives keys and values from pairs and compares contexts and states with keys. M and N are on the keys' side, so
that they are applied once per pair, with the translator's `key_scale`. All scores are fp32: one of hundreds has no
fraction left in half precision.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fairseq_seg.modules.encoder import BiGRU
from fairseq_seg.modules.translator import Pass, Translator

Embed = Callable[[Tensor], Tensor]


def times(x: Tensor, metric: Tensor) -> Tensor:
    """Return M x for a diagonal M (C,) or a full one (C, C); x (..., C) -> (..., C)."""
    return x * metric if metric.dim() == 1 else x @ metric.t()


def match(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the products of queries (B, T, C) with keys (B, S, C), fp32; -> (B, T, S)."""
    return torch.bmm(queries.float(), keys.transpose(1, 2))


class ContextKeys(nn.Module):
    """A slot is found by the context of its step: what was being translated there."""

    needs_pass = True  # of the translator over the pairs

    def __init__(self, translator: Translator, full: bool):
        super().__init__()
        self.size, self.scale = translator.context_size, translator.key_scale
        self.metric = nn.Parameter(torch.eye(self.size) if full else torch.ones(self.size))  # M

    def forward(self, passed: Pass, pairs: dict[str, Tensor], embed: Embed) -> tuple[Tensor, Tensor]:
        """Return the keys (P, T', size) and values z' (P, T', H) of P pairs.

        Args:
            passed: the translator's pass over the pairs, if it `needs_pass`.
            pairs: see `guided`. embed: the translator's embeddings of target symbols, (P, T') -> (P, T', E).
        """
        return times(passed.contexts, self.scale * self.metric), passed.states

    def by_context(self, contexts: Tensor, keys: Tensor) -> Tensor | None:
        """Return the part of the scores that is linear in c; (B, T, C), contexts or annotations -> (B, T, S)."""
        return match(contexts, keys[..., : contexts.size(-1)])

    def for_states(self, keys: Tensor | None) -> Tensor | None:
        """Return the part of keys (B, S, size) that is compared with states, (B, S, H); of that part, the same."""
        return None

    def scores(self, by_context: Tensor | None, states: Tensor, keys: Tensor | None) -> Tensor:
        """Return the content scores (B, T, S) from their linear part, states (B, T, H) and `for_states` keys."""
        return by_context


class ContextStateKeys(ContextKeys):
    """A slot is found by the context and the state of its step: the state knows what had been written before.

    N starts at zero, where the score is the paper's.
    """

    def __init__(self, translator: Translator, full: bool):
        super().__init__(translator, full)
        units = translator.state_size
        self.size += units
        self.state_metric = nn.Parameter(torch.zeros((units, units) if full else units))  # N

    def forward(self, passed: Pass, pairs: dict[str, Tensor], embed: Embed) -> tuple[Tensor, Tensor]:
        keys, values = super().forward(passed, pairs, embed)
        return torch.cat([keys, times(values, self.scale * self.state_metric)], dim=-1), values

    def for_states(self, keys: Tensor) -> Tensor:
        return keys[..., -len(self.state_metric) :]

    def scores(self, by_context: Tensor, states: Tensor, keys: Tensor) -> Tensor:
        return by_context + match(states, self.for_states(keys))


class TargetKeys(nn.Module):
    """A slot is found by its place in Y' alone: states of a bidirectional GRU over the embeddings of Y'.

    They stand in for both c' and z', so they have the size of z.
    """

    needs_pass = False

    def __init__(self, translator: Translator, full: bool):
        super().__init__()
        self.size, self.scale = translator.state_size, translator.key_scale
        self.gru = BiGRU(translator.embedding_size, self.size // 2)
        self.metric = nn.Parameter(torch.eye(self.size) if full else torch.ones(self.size))

    def forward(self, passed: Pass | None, pairs: dict[str, Tensor], embed: Embed) -> tuple[Tensor, Tensor]:
        states = self.gru(embed(pairs["tokens"]), pairs["lengths"])
        return times(states, self.scale * self.metric), states

    def by_context(self, contexts: Tensor, keys: Tensor) -> Tensor | None:
        return None

    def for_states(self, keys: Tensor) -> Tensor | None:
        return keys

    def scores(self, by_context: Tensor | None, states: Tensor, keys: Tensor) -> Tensor:
        return match(states, keys)


class TargetContextKeys(TargetKeys):
    """The same keys, found by c_t: the paper leaves open which of the two its CopyNet variant asks with.

    c_t is not of the size of k', so M is rectangular, (C, H); it starts with ones on its diagonal.
    """

    def __init__(self, translator: Translator, full: bool):
        super().__init__(translator, full)
        units, self.size = self.size, translator.context_size
        self.metric = nn.Parameter(torch.eye(self.size, units))

    def by_context(self, contexts: Tensor, keys: Tensor) -> Tensor:
        return match(contexts, keys)

    def for_states(self, keys: Tensor) -> None:
        return None

    def scores(self, by_context: Tensor, states: Tensor, keys: Tensor | None) -> Tensor:
        return by_context


Keys = ContextKeys | TargetKeys
KINDS: dict[str, type[ContextKeys] | type[TargetKeys]] = {
    "context": ContextKeys,
    "context-state": ContextStateKeys,
    "target": TargetKeys,
    "target-context": TargetContextKeys,
}
