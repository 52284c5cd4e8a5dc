"""The address of a pair in the cache: it depends on the pair's symbols, not on its memory."""

from hashlib import blake2b

import numpy as np

ADDRESS_BYTES = 16


def pair_address(source: np.ndarray, target: np.ndarray) -> bytes:
    """Identify a pair by the token ids of its two sides, eos included.

    An edited pair has another address, so an entry is never out of date. The same pair in the training set and in any
    memory shares one entry.
    """
    digest = blake2b(len(source).to_bytes(4, "little"), digest_size=ADDRESS_BYTES)
    digest.update(source.astype("<i4").tobytes())
    digest.update(target.astype("<i4").tobytes())
    return digest.digest()
