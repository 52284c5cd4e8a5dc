"""What a model takes the words of finished translations for: copied or generated, and from which source words.

seg-evaluate runs this command in its own process: `python -m fairseq_seg.cli.copies`, with seg-explain's arguments. It
prints one line of JSON per sentence, see `Copies`.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from dataclasses import asdict

from fairseq_seg.cli.explain import BATCH_SIZE, get_parser
from fairseq_seg.errors import SegError, command
from fairseq_seg.explain.copies import count_copies


@command("copies")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    from fairseq_seg.cli.explain_input import read_sentences
    from fairseq_seg.translator import Session, Translator

    options, rest = get_parser().parse_known_args(arguments)
    warnings.filterwarnings("ignore", category=UserWarning)  # from hydra, about how fairseq calls it
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)

    def explain(session: Session) -> None:
        if not session.model.guided.memory.keys.needs_pass:
            raise SegError(
                f"{session.checkpoint} cannot judge copies, because its keys (--memory-keys target) do not look at the "
                "retrieved source: name another checkpoint."
            )
        sentences, source = read_sentences(session, options)
        rows = list(sentences)
        size = session.cfg.dataset.batch_size or BATCH_SIZE
        for first in range(0, len(rows), size):
            batch = rows[first : first + size]
            symbols, given = ([getattr(row, name) for row in batch] for name in ("symbols", "translation"))
            explained = session.translate_symbols(symbols, source, provenance=True, first=first, given=given)
            for row, translation in zip(batch, explained, strict=True):
                assert translation.explanation is not None
                print(json.dumps(asdict(count_copies(translation.explanation, row.reference)), ensure_ascii=False))
            sys.stdout.flush()

    with Translator(options.data, checkpoint=options.path, arguments=rest) as translator:
        translator.call(explain)


if __name__ == "__main__":
    main()
