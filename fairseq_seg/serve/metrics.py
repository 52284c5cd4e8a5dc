"""Counts and times in the form of Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """What one server counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._make(Counter, "requests", "Requests by route and status", ("route", "status"))
        self.seconds = self._make(Histogram, "request_seconds", "Time to answer", ("route",), buckets=SECONDS)
        self.batches = self._make(Histogram, "batch_texts", "Texts per batch", ("direction",), buckets=SIZES)
        self.queue = self._make(Gauge, "waiting_texts", "Texts that wait for a batch", ("direction",))
        self.written = self._make(Counter, "pairs_written", "Pairs added, changed or deleted", ("memory",))

    def _make(self, kind, name: str, help: str, labels: tuple[str, ...], **options):
        return kind(f"seg_{name}", help, labels, registry=self.registry, **options)

    def text(self) -> bytes:
        """Return all figures."""
        return generate_latest(self.registry)
