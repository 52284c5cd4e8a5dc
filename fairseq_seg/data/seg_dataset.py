"""A language pair dataset whose examples carry their retrieved pairs."""

import logging
from collections.abc import Sequence

import numpy as np
from fairseq.data import LanguagePairDataset, data_utils
from torch import Tensor
from torch.utils.data import Dataset

from fairseq_seg.corpus.reserved import parse
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.corpus.subwords import shown
from fairseq_seg.data.example_pairs import ExamplePairs, as_tokens
from fairseq_seg.data.valued_dictionary import split_values
from fairseq_seg.errors import SegError, hook

logger = logging.getLogger(__name__)


class Tokens(Dataset):
    """One side of a split as fairseq's datasets give it: tensors with eos, from a file that is already open.

    Args:
        side: the sentences of the file. order: the rows to give. longest: cut longer sentences (eos not counted).
    """

    def __init__(self, side: Sequences, order: np.ndarray, longest: int | None = None):
        self.side, self.order, self.longest = side, order, longest
        self.sizes = side.lengths[order].clip(max=longest) + 1

    def __getitem__(self, index: int) -> Tensor:
        return as_tokens(self.side[self.order[index]][: self.longest])

    def __len__(self) -> int:
        return len(self.order)

    def values(self, index: int) -> list[str]:
        """Return the values of a sentence's reserved symbols."""
        return self.side.values_of(self.order[index]) or []

    @hook
    def get_original_text(self, index: int) -> str:
        """Return a sentence's own words, which --replace-unk puts in place of unknown symbols."""
        if self.side.lines is None:
            raise SegError("--replace-unk needs the words of the source: use fairseq-preprocess --dataset-impl raw.")
        line, values = self.side.lines[self.order[index]], iter(self.values(index))
        words = ((word, parse(word)) for word in line.split(" "))
        return " ".join(word if found is None else shown(next(values, word), found.begins) for word, found in words)


def order_of_parts(sizes: Sequence[int], combine: bool, upsample: int) -> np.ndarray:
    """Return the rows of a split with parts in fairseq's order: the first, `upsample` times, and then the others.

    Without `combine` it is the first alone.
    """
    first, others = np.arange(sizes[0]), np.arange(sizes[0], sum(sizes))
    return np.concatenate([np.tile(first, max(upsample, 1)), others]) if combine and len(sizes) > 1 else first


class SegDataset(LanguagePairDataset):
    """fairseq's pairs, right-padded, each with its retrieved pairs; batching never drops an example.

    Args:
        retrieved: the retrieved pairs of every example. valued: batches have the `values` of their sentences, source
            and target, which only translation needs.
    """

    def __init__(self, *args, retrieved: ExamplePairs | None = None, valued: bool = False, **kwargs):
        super().__init__(*args, **kwargs)
        self.retrieved, self.valued = retrieved, valued

    def __getitem__(self, index: int) -> dict:
        example = super().__getitem__(index)
        if self.retrieved is not None:
            example["pairs"] = self.retrieved.row(index)
        return example

    def collater(self, samples: list[dict], pad_to_length=None) -> dict:
        """Return fairseq's batch, with the retrieved pairs in `net_input` and, if there are any, exact targets."""
        batch = super().collater(samples, pad_to_length)
        if batch and self.valued:
            sides = [side for side in (self.src, self.tgt) if side is not None]
            batch["values"] = [[side.values(index) for index in batch["id"].tolist()] for side in sides]
        if batch and self.retrieved is not None:
            order = batch["id"].tolist()  # fairseq sorted the batch by length
            of_id = {sample["id"]: sample for sample in samples}
            rows, sentences = ([of_id[index][part] for index in order] for part in ("pairs", "source"))
            plain = [split_values(self.src_dict, sentence.tolist())[0] for sentence in sentences]
            pairs = self.retrieved.collate(rows, plain)
            if pairs is not None:
                batch["net_input"]["pairs"] = pairs
            exact = [self.retrieved.exact_target(index) for index in order]
            if any(target is not None for target in exact):
                batch["exact"] = exact
        return batch

    def num_tokens(self, index: int) -> int:
        """Return the size of an example in a batch."""
        return int(self.num_tokens_vec(np.array([index]))[0])

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        """Return the sizes of examples in a batch, including their retrieved pairs."""
        own = super().num_tokens_vec(indices)
        return own if self.retrieved is None else self.retrieved.num_tokens(indices, own)

    def batch_by_size(self, indices, max_tokens=None, max_sentences=None, required_batch_size_multiple=1) -> list:
        """Batch all of `indices`; an example that exceeds --max-tokens loses pairs, and may end up alone in its batch.

        fairseq's own method would drop the last batch if its size is not a multiple of
        --required-batch-size-multiple.
        """
        if len(indices) == 0:
            return []
        sizes = self.num_tokens_vec(indices)
        if max_tokens is not None:
            if self.retrieved is not None:
                lost = self.retrieved.fit(indices, super().num_tokens_vec(indices), max_tokens)
                if lost:
                    logger.info("%d examples lost their last retrieved pairs, to fit --max-tokens %d", lost, max_tokens)
            sizes = np.minimum(self.num_tokens_vec(indices), max_tokens)
        batches = data_utils.batch_by_size(
            indices, self.num_tokens, sizes.astype("int64"), max_tokens, max_sentences, required_batch_size_multiple
        )
        batched = sum(len(batch) for batch in batches)
        return [*batches, indices[batched:]] if batched < len(indices) else batches
