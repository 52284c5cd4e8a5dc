"""Where the time of fairseq-generate goes: data, memory building, step loop, mixture, search.

    python examples/benchmark/profile_generate.py CHECKPOINT DATA-BIN --memory-k 2 --beam 5 --batch-size 32

Options that are not named below go to fairseq-generate: --distributed-world-size 5 translates every fifth batch.
Each part is the CPU time of one thread within its functions, less that of other parts which they call.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from functools import wraps
from pathlib import Path

from rounds import new_parser, print_table, write_json

PLUGIN = Path(__file__).resolve().parents[2] / "fairseq_seg"
REST = "the rest: text, scores, output"


class Stopwatch:
    """Gives every moment to the part that was entered last and not left."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._parts = [REST]
        self._since = time.process_time()

    def lap(self) -> None:
        """Give the time since the last lap to the part that is running."""
        now = time.process_time()
        self.seconds[self._parts[-1]] += now - self._since
        self._since = now

    def watch(self, owner: type | object, function: str, part: str) -> None:
        """Time `owner.function` as a part from now on."""
        original = getattr(owner, function)

        @wraps(original)
        def timed(*args, **kwargs):
            self.lap()
            self._parts.append(part)
            self.calls[part] += 1
            try:
                return original(*args, **kwargs)
            finally:
                self.lap()
                self._parts.pop()

        setattr(owner, function, timed)


def watch_all(stopwatch: Stopwatch) -> None:
    """Name the parts of a run."""
    from fairseq import checkpoint_utils
    from fairseq.search import BeamSearch
    from fairseq.sequence_generator import SequenceGenerator

    from fairseq_seg.cache.frozen import EntryCache
    from fairseq_seg.data.seg_dataset import SegDataset
    from fairseq_seg.models.guided import GuidedDecoder, GuidedEncoder
    from fairseq_seg.modules.cgru import ConditionalGRU
    from fairseq_seg.modules.gru import GRUTranslator
    from fairseq_seg.modules.memory import SlotReader
    from fairseq_seg.tasks.seg_translation import SegTranslationTask

    loading, data, reorder = "start: checkpoint, split and attached pairs", "batches", "step: beams change places"
    search = "search: candidates, finished sentences"
    for owner, function, part in (
        (checkpoint_utils, "load_model_ensemble", loading),
        (SegTranslationTask, "load_dataset", loading),
        (SegTranslationTask, "get_batch_iterator", "start: order of the batches"),
        (SegDataset, "__getitem__", data),
        (SegDataset, "collater", data),
        (GRUTranslator, "encode", "encoder: sentences and pairs"),
        (ConditionalGRU, "forward", "memory: decoder pass over the pairs"),
        (EntryCache, "write", "memory: cache"),
        (GuidedEncoder, "forward", "memory: slots and scores, context products"),
        (GuidedEncoder, "reorder_encoder_out", reorder),
        (GuidedDecoder, "reorder_incremental_state", reorder),
        (GuidedDecoder, "forward", "step: recurrence and attention"),
        (SlotReader, "step", "step: memory read"),
        (GRUTranslator, "logits", "step: readout and vocabulary"),
        (GuidedDecoder, "get_normalized_probs", "mixture: softmax and copies"),
        (BeamSearch, "step", search),
        (SequenceGenerator, "_generate", search),
    ):
        stopwatch.watch(owner, function, part)


def profile(checkpoint: Path, data: str, options: list[str]) -> Stopwatch:
    """Run fairseq-generate in this process, its output into a temporary folder."""
    import torch
    from fairseq import options as fairseq_options
    from fairseq_cli import generate

    # fairseq does not look into a --user-dir whose package is imported already
    import fairseq_seg.models.seg_gru
    import fairseq_seg.tasks.seg_translation  # noqa: F401

    torch.set_num_threads(1)
    plugin = ["--user-dir", str(PLUGIN), "--task", "seg_translation", "--path", str(checkpoint), "--cpu"]
    with tempfile.TemporaryDirectory() as folder:
        # without a process of its own for the data, whose time would not be seen
        arguments = [data, *plugin, *options, "--num-workers", "0", "--results-path", folder]
        chosen = fairseq_options.parse_args_and_arch(fairseq_options.get_generation_parser(), arguments)
        stopwatch = Stopwatch()
        watch_all(stopwatch)
        generate.main(chosen)
        stopwatch.lap()
    return stopwatch


def main() -> None:
    """Run the command line."""
    parser = new_parser(__doc__)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT")
    parser.add_argument("data", metavar="DATA-BIN")
    options, others = parser.parse_known_args()
    if not options.checkpoint.is_file():
        sys.exit(f"The checkpoint {options.checkpoint} does not exist: name one that fairseq-train has written.")
    stopwatch = profile(options.checkpoint, options.data, others)
    total = stopwatch.seconds.total()
    print(f"\nfairseq-generate {' '.join(others)}: {total:.1f} s of CPU time")
    taken = stopwatch.seconds.most_common()
    parts = [{"part": part, "seconds": seconds, "share": seconds / total} for part, seconds in taken]
    rows = [(part, f"{t / total:.1%}", f"{t:.2f}", stopwatch.calls[part] or "") for part, t in taken]
    print_table("part | share | seconds | calls", rows)
    write_json(options.json, {"ratios": {}, "parts": parts})


if __name__ == "__main__":
    main()
