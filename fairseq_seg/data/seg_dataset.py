"""A language pair dataset whose examples carry their retrieved pairs."""

import logging

import numpy as np
from fairseq.data import LanguagePairDataset, data_utils

from .pair_memory import PairMemory

logger = logging.getLogger(__name__)


class SegDataset(LanguagePairDataset):
    """fairseq's pairs, right-padded, with a memory beside each; no example is ever lost in batching."""

    def __init__(self, *args, memory: PairMemory | None = None, **kwargs):
        super().__init__(*args, **kwargs)
        self.memory = memory

    @classmethod
    def from_pairs(cls, pairs: LanguagePairDataset, memory: PairMemory | None) -> "SegDataset":
        """The same examples as `pairs`, as fairseq's own loader made them."""
        return cls(
            pairs.src,
            pairs.src_sizes,
            pairs.src_dict,
            pairs.tgt,
            pairs.tgt_sizes,
            pairs.tgt_dict,
            left_pad_source=False,
            left_pad_target=False,
            shuffle=pairs.shuffle,
            align_dataset=pairs.align_dataset,
            eos=pairs.eos,
            pad_to_multiple=pairs.pad_to_multiple,
            memory=memory,
        )

    def __getitem__(self, index: int) -> dict:
        example = super().__getitem__(index)
        if self.memory is not None:
            example["memory"] = self.memory.row(index)
        return example

    def collater(self, samples: list[dict], pad_to_length=None) -> dict:
        """fairseq's batch, and in `net_input` the batch's memory, if it has any."""
        batch = super().collater(samples, pad_to_length)
        if batch and self.memory is not None:
            rows = {sample["id"]: sample["memory"] for sample in samples}
            memory = self.memory.collate([rows[i] for i in batch["id"].tolist()])  # fairseq sorted the batch by length
            if memory is not None:
                batch["net_input"]["memory"] = memory
        return batch

    def num_tokens(self, index: int) -> int:
        return int(self.num_tokens_vec(np.array([index]))[0])

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        own = super().num_tokens_vec(indices)
        return own if self.memory is None else self.memory.num_tokens(indices, own)

    def batch_by_size(self, indices, max_tokens=None, max_sentences=None, required_batch_size_multiple=1) -> list:
        """Batch all of `indices`; what does not fit --max-tokens loses retrieved pairs, and at the worst stands alone.

        fairseq's own would drop the last batch where its size is no multiple of --required-batch-size-multiple.
        """
        if len(indices) == 0:
            return []
        sizes = self.num_tokens_vec(indices)
        if max_tokens is not None:
            if self.memory is not None:
                lost = self.memory.fit(indices, super().num_tokens_vec(indices), max_tokens)
                if lost:
                    logger.info("%d examples lost their last retrieved pairs, to fit --max-tokens %d", lost, max_tokens)
            sizes = np.minimum(self.num_tokens_vec(indices), max_tokens)
        batches = data_utils.batch_by_size(
            indices, self.num_tokens, sizes.astype("int64"), max_tokens, max_sentences, required_batch_size_multiple
        )
        batched = sum(len(batch) for batch in batches)
        return [*batches, indices[batched:]] if batched < len(indices) else batches
