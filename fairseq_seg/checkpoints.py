"""Loads fairseq checkpoints under current torch with its protection left on.

torch >= 2.6 unpickles a checkpoint only if every class in it is on a list. A fairseq checkpoint holds a handful of
harmless ones besides tensors; exactly these are listed here.
"""

import argparse
import codecs

import numpy as np
import torch


def allow_fairseq_checkpoints() -> None:
    """Allow-list what a fairseq checkpoint holds besides tensors and plain containers."""
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,
            codecs.encode,
            # numpy arrays and scalars: the iterator's and the meters' state
            np.ndarray,
            np.dtype,
            np._core.multiarray._reconstruct,
            np._core.multiarray.scalar,
            *(type(np.dtype(kind)) for kind in (np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_)),
        ]
    )
