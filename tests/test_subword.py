"""seg-subword: the symbols fit fairseq, nothing is lost on the way, and errors are sentences."""

import subprocess
import sys
from pathlib import Path

import pytest

from preprocess.subword import main
from tests.corpus import make_corpus, write_text

SCRIPT = Path(__file__).parent.parent / "preprocess" / "subword.py"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    write_text(make_corpus(), folder)
    return folder


@pytest.fixture(scope="module")
def prefix(text: Path) -> Path:
    """Return a model over both languages with 150 symbols."""
    main(f"train --input {text}/train.en {text}/train.fr --model {text}/bpe/joint --vocab-size 150".split())
    return text / "bpe" / "joint"


def test_encode_then_decode_gives_the_text_back(text: Path, prefix: Path, tmp_path: Path):
    main(f"encode --model {prefix}.model --input {text}/test.fr --output {tmp_path}/encoded".split())
    main(f"decode --input {tmp_path}/encoded --output {tmp_path}/decoded".split())
    encoded, original = (tmp_path / "encoded").read_text(), (text / "test.fr").read_text()
    assert len(encoded.split()) > len(original.split())
    assert (tmp_path / "decoded").read_text() == original
    assert sorted(path.name for path in tmp_path.iterdir()) == ["decoded", "encoded"]


def test_text_is_not_normalized(tmp_path: Path):
    # All of these change under NFKC, sentencepiece's default: superscripts, ellipses, ligatures, full-width letters.
    lines = "5 m² … ﬁn Ａ ½ ℃ e\u0301 é ™\n".encode() * 3
    (tmp_path / "text").write_bytes(lines)
    main(f"train --input {tmp_path}/text --model {tmp_path}/m --vocab-size 22".split())
    main(f"encode --model {tmp_path}/m.model --input {tmp_path}/text --output {tmp_path}/encoded".split())
    main(f"decode --input {tmp_path}/encoded --output {tmp_path}/decoded".split())
    assert (tmp_path / "decoded").read_bytes() == lines
    known = {line.split()[0] for line in (tmp_path / "m.dict.txt").read_text().splitlines()}
    assert set((tmp_path / "encoded").read_text().split()) <= known


def test_symbols_and_numbers_are_fairseqs(text: Path, prefix: Path):
    import sentencepiece
    from fairseq.data import Dictionary
    from fairseq.data.data_utils import post_process
    from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig

    from fairseq_seg.corpus.subwords import SubwordModel
    from fairseq_seg.tasks.seg_translation import SegTranslationConfig, SegTranslationTask

    processor = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    dictionary = Dictionary.load(f"{prefix}.dict.txt")
    assert len(dictionary) == processor.get_piece_size() == 150
    assert dictionary.symbols == [processor.id_to_piece(index) for index in range(150)]

    bpe = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=f"{prefix}.model"))
    SegTranslationTask(SegTranslationConfig(), dictionary, dictionary).as_encoded(bpe, None)
    assert (
        bpe.encode("the\u00a0 name")
        == bpe.encode("the name")
        == " ".join(SubwordModel(Path(f"{prefix}.model")).cut("the\u202fname"))
    )
    for line in (text / "test.en").read_text().splitlines():
        symbols = bpe.encode(line)
        ids = dictionary.encode_line(symbols, add_if_not_exist=False)
        assert ids.tolist() == [*processor.encode(line), dictionary.eos()]
        assert dictionary.string(ids, bpe_symbol="sentencepiece") == line
        assert post_process(symbols, "sentencepiece") == bpe.decode(symbols) == line


def test_script_reads_and_writes_standard_streams_line_by_line(prefix: Path):
    # A carriage return, an empty line, odd spaces, an unseen letter and a missing last line feed.
    raw = "the\rname\n\nthe\u00a0 the\u0085the\nthe \u4e2d\u6587".encode()
    encoding = [sys.executable, str(SCRIPT), "encode", "--model", f"{prefix}.model"]
    encoded = subprocess.run(encoding, input=raw, capture_output=True, check=True).stdout
    decoded = subprocess.run([sys.executable, str(SCRIPT), "decode"], input=encoded, capture_output=True, check=True)
    assert decoded.stdout.decode() == "the name\n\nthe the the\nthe \u4e2d\u6587\n"


def test_help_answers_without_sentencepiece(tmp_path: Path):
    (tmp_path / "sentencepiece.py").write_text("raise ImportError('imported too early')")
    environment = {"PYTHONPATH": str(tmp_path)}
    result = subprocess.run([sys.executable, str(SCRIPT), "--help"], env=environment, capture_output=True, text=True)
    assert result.returncode == 0 and "decode" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "train --input {text}/none.en --model {out}/m --vocab-size 99",
            "none.en cannot be read or written: No such file or directory.",
        ),
        ("train --input {text}/train.en --model {out}/m --vocab-size 9999", "9999 is too large for this text: use "),
        ("train --input {text}/train.en --model {out}/m --vocab-size 9", "--vocab-size 9 is too small: the text has "),
        ("train --input {text}/train.en --model {out}/m --vocab-size 0", "--vocab-size 0 is too small: give "),
        ("train --input {text}/empty --model {out}/m --vocab-size 99", "empty: no text to train on"),
        ("train --input {text}/latin1 --model {out}/m --vocab-size 99", "latin1: line 2 is not UTF-8 text"),
        (
            "encode --model {text}/none.model --output {out}/o",
            "none.model is missing or is not a sentencepiece model: train one with",
        ),
        (
            "encode --model {text}/train.en --output {out}/o",
            "train.en is missing or is not a sentencepiece model: train one with",
        ),
        ("encode --model {prefix}.model --input {text}/latin1 --output {out}/o", "latin1: line 2 is not UTF-8 text"),
        ("decode --input {text} --output {out}/o", "cannot be read or written: Is a directory."),
    ],
)
def test_errors_are_one_sentence_and_leave_nothing_behind(
    arguments: str, message: str, text: Path, prefix: Path, tmp_path: Path
):
    (text / "empty").write_text("\n \n")
    (text / "latin1").write_bytes(b"good\n\xe9t\xe9\n")
    with pytest.raises(SystemExit) as stop:
        main(arguments.format(text=text, out=tmp_path, prefix=prefix).split())
    assert message in str(stop.value)
    assert "\n" not in str(stop.value)
    assert not list(tmp_path.iterdir())
