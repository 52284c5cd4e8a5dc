"""Rows of pairs for a cache, which say whose they are."""

import numpy as np

ROW = 8


def make_pairs(*numbers: int, rows: int = 5) -> list[tuple[bytes, np.ndarray]]:
    """Pairs with the addresses of these numbers and as many rows, which say whose they are."""
    return [(number.to_bytes(16), np.full((rows, ROW), number, np.uint8)) for number in numbers]
