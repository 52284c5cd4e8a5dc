"""Why a request is not answered as asked: one sentence, a status, and when to come back."""

from __future__ import annotations


class Refusal(Exception):
    """Ends a request with a status of HTTP and one sentence, which each protocol puts in its own form."""

    def __init__(self, status: int, message: str, retry_after: int | None = None):
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


def overloaded(message: str) -> Refusal:
    """Return the refusal of a request that finds the queue full."""
    return Refusal(503, message, retry_after=2)
