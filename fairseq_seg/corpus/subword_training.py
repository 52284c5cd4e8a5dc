"""Train a sentencepiece BPE model that numbers its symbols as fairseq's dictionaries do."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from fairseq_seg.corpus.dictionary import EOS, PAD, SPECIAL, UNKNOWN
from fairseq_seg.corpus.notation import notation_of
from fairseq_seg.corpus.protection import Protection
from fairseq_seg.corpus.subwords import one_blank
from fairseq_seg.errors import SegError
from fairseq_seg.files import read_lines, write_whole


def train_subwords(
    inputs: list[Path], prefix: Path, vocab_size: int, kinds: Sequence[str] = (), lang: str | None = None
) -> None:
    """Train a BPE model of `vocab_size` symbols on text files; write `prefix`.model and `prefix`.dict.txt.

    Tokens of these `kinds` become reserved symbols. How numbers are written depends on `lang`, by default the extension
    of the first file, and on the text.
    """
    import sentencepiece

    def sentences() -> Iterator[str]:
        for path in inputs:
            with path.open("rb") as stream:
                yield from filter(None, map(one_blank, read_lines(stream, str(path))))

    if vocab_size < 1:
        raise SegError(f"--vocab-size {vocab_size} is too small: give a number of symbols above zero.")
    lines = list(tqdm(sentences(), desc="reading", unit=" lines"))
    if not lines:
        raise SegError(f"{', '.join(map(str, inputs))}: no text to train on: give at least one non-empty file.")
    protection = None
    if kinds:
        protection = Protection(tuple(kinds), notation_of(lang or inputs[0].suffix[1:], lines))
        lines = without_tokens(lines, protection)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            character_coverage=1.0,
            normalization_rule_name="identity",  # its default, NFKC, would turn m² into m2 and … into three dots
            max_sentence_length=1 << 20,  # the default drops lines over 4,192 bytes, and with them perhaps a letter
            bos_id=SPECIAL.index("<s>"),
            pad_id=PAD,
            eos_id=EOS,
            unk_id=UNKNOWN,
            minloglevel=2,
            user_defined_symbols=[] if protection is None else protection.symbols,
        )
    except RuntimeError as error:
        raise SegError(_explain(str(error), vocab_size)) from None
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(Path(f"{prefix}.dict.txt")) as stream:
        for index in range(len(SPECIAL), processor.get_piece_size()):
            stream.write(f"{processor.id_to_piece(index)} 1\n".encode())
    with write_whole(Path(f"{prefix}.model")) as stream:
        stream.write(model.getvalue())


def without_tokens(lines: list[str], protection: Protection) -> list[str]:
    """Put reserved symbols in place of tokens, so that no subword is spent on them.

    A last line has all characters of the tokens: those that stay text need subwords, too.
    """
    protected: list[str] = []
    characters: set[str] = set()
    for line in tqdm(lines, desc="protecting", unit=" lines"):
        found = protection.source(line)
        protected.append(found.text)
        characters.update(*found.values)
    return [*protected, " ".join(sorted(characters - set(" ⟦⟧")))]


def _explain(error: str, vocab_size: int) -> str:
    """Turn sentencepiece's complaint about the number of symbols into a sentence that names our option."""
    if largest := re.search(r"value <= (\d+)", error):
        return f"--vocab-size {vocab_size} is too large for this text: use {largest[1]} or less."
    if smallest := re.search(r"required_chars\. \d+ vs (\d+)", error):
        return f"--vocab-size {vocab_size} is too small: the text has {smallest[1]} characters and special symbols."
    return f"sentencepiece could not train a model: {error}"
