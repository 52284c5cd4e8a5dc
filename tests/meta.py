"""Running on the meta device, where no value can be looked at: a host sync raises.

`.item()`, `unique`, `nonzero` and most mixtures of devices raise there; products and indexing with a CPU tensor do not,
so `RefuseCPU` watches every operation, too.
"""

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map


class RefuseCPU(TorchDispatchMode):
    """Raise at any operation that takes or makes a CPU tensor.

    Tensors of a shape's numbers may pass: fairseq's sinusoidal positions make such ones of what the host knows anyway.
    """

    def __init__(self, let_shapes_pass: bool = False):
        super().__init__()
        self.let_shapes_pass = let_shapes_pass

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, result)):
            if isinstance(leaf, Tensor) and leaf.device.type == "cpu" and not (self.let_shapes_pass and leaf.dim() < 2):
                raise AssertionError(f"{func} met a CPU tensor of shape {tuple(leaf.shape)}")
        return result


def on_meta(batch: dict) -> dict:
    """Return a batch with all tensors on the meta device."""
    return tree_map(lambda x: x.to("meta") if isinstance(x, Tensor) else x, batch)
