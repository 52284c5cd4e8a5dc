"""What the memory asks of a translator, whatever its kind.

The tensors of B sentences with T target steps each are (B, T, ...). In a beam step a sentence's hypotheses stand where
teacher forcing has the steps: R = B * beam rows, those of a sentence next to each other, seen as (B, beam, ...).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn


class Pass(NamedTuple):
    """What a translator leaves behind at T target steps, or at one step of a beam of T."""

    states: Tensor  # z, (B, T, H)
    contexts: Tensor | None  # c, (B, T, C); None at a beam step if the translator's `sums_annotations`
    attention: Tensor  # alpha, (B, T, S)
    inputs: Tensor | None  # what `logits` needs of the previous symbols, (B, T, E)


def each(parts: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Return a NamedTuple or list, which may hold others, with a function applied to every tensor; None stays None."""
    if parts is None:
        return None
    if isinstance(parts, list):
        return [each(x, function) for x in parts]
    return type(parts)(*(each(x, function) for x in parts)) if isinstance(parts, tuple) else function(parts)


class Translator(nn.Module, ABC):
    """An encoder-decoder with attention, whose states and contexts on retrieved pairs are the memory's slots.

    It has two children, `encoder` and `decoder`, that hold all parameters in modules of their own, and says:

        state_size: H, the size of z. context_size: C, the size of c. embedding_size: E, that of target embeddings.
        sums_annotations: whether c_t is the sum of the annotations' `states` weighted by the attention (Eq. 2). If so,
            beam steps do without c_t: what is linear in c_t is computed once per sentence on all annotations.

        key_scale: a factor of the products of contexts and of states that a match is made of. Those of layers that end
            in a normalisation grow with their size, and a softmax over them would begin as a choice of one.

    Annotations are a NamedTuple of tensors (B, ...), all that decoding needs of B sources; its fields are the
    translator's own, except for `states`, (B, S, C), and `mask`, (B, S), True at padding.
    """

    encoder: nn.Module
    decoder: nn.Module
    state_size: int
    context_size: int
    embedding_size: int
    sums_annotations: bool
    key_scale: float = 1.0

    @abstractmethod
    def encode(self, tokens: Tensor, lengths: Tensor) -> Any:
        """Return the annotations of right-padded sources; tokens (B, S), lengths (B,)."""

    @abstractmethod
    def embed(self, tokens: Tensor) -> Tensor:
        """Return target embeddings; (B, T) -> (B, T, E)."""

    @abstractmethod
    def run(self, previous: Tensor, annotations: Any) -> Pass:
        """Return all steps of teacher forcing; previous symbols y_{t-1} (B, T)."""

    def for_steps(self, annotations: Any) -> Any:
        """Return annotations with all that steps need of them, computed once per sentence."""
        return annotations

    @abstractmethod
    def step(self, previous: Tensor, state: Any, annotations: Any) -> tuple[Any, Pass]:
        """Return the state after one beam step, and the step; previous symbols (R,), state None at first."""

    def reorder(self, state: Any, order: Tensor) -> Any:
        """Return the rows `order` (R',) of a state of `step`."""
        return each(state, lambda x: x.index_select(0, order))

    @abstractmethod
    def logits_from_context(self, contexts: Tensor) -> Tensor | None:
        """Return what `logits` needs of c, linear in it; (B, T, C), contexts or annotations -> (B, T, E)."""

    @abstractmethod
    def logits(self, states: Tensor, from_context: Tensor | None, inputs: Tensor | None) -> Tensor:
        """Return the generator's logits (B, T, V) from states (B, T, H), which deep fusion may have changed (Eq. 1)."""
