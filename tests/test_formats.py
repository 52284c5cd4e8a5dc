"""The formats: what a file says becomes pairs, what we write reads back, and a broken file is refused by its line."""

import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairseq_seg.corpus.codes import Code, number_codes
from fairseq_seg.errors import SegError
from fairseq_seg.store.formats import (
    PairFile,
    Tags,
    check,
    export_file,
    find_pair_files,
    import_files,
    read_pairs,
    write_pairs,
)
from fairseq_seg.store.pair import Codes, Skipped, TranslationUnit
from fairseq_seg.store.store import TranslationMemory
from fairseq_seg.store.xml import escape
from tests.corpus import SOURCE, TARGET
from tests.memories import create_memory, pairs
from tests.memory_files import BROKEN, PO, TMX, UNIT


def read_all(format: str, *files: Path, tags: Tags = "drop") -> list[TranslationUnit | Skipped]:
    return list(read_pairs(PairFile(format, list(files)), SOURCE, TARGET, tags))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1"])
def test_tmx(tmp_path: Path, encoding: str):
    path = tmp_path / "a.tmx"
    path.write_bytes(TMX.replace("UTF-8", encoding.removesuffix("-sig")).replace("deux", "déux").encode(encoding))
    attributes = {"note": "first\nsecond", "client": "ACME", "changeid": "ann", "usagecount": "7"}
    locales = {"source-lang": "EN-gb", "target-lang": "fr-CA"}
    first = ("Press F1\n& wait.", "Appuyez.", str(path), "t1", attributes | locales)
    assert [unit[:7] for unit in read_all("tmx", path)] == [
        (*first, "2020-01-31T12:59:00Z", "2021-01-31T12:59:00Z"),
        ("two", "déux", str(path), "2", {"creationdate": "yesterday", "source-lang": "en-US"}, None, None),
        ("no text in fr", ("en", "de")),
        ("variety", "quatre", str(path), "4", {"source-lang": "en-AU"}, None, None),
        ("four", "quatre", str(path), "4", {}, None, None),
        ("an entity that the file does not define", ()),
        ("six", "", str(path), "6", {}, None, None),
    ]
    assert check(PairFile("tmx", [path]), SOURCE, TARGET) == 6


def test_tmx_tags_as_text(tmp_path: Path):
    path = tmp_path / "a.tmx"
    path.write_text(TMX)
    unit = read_all("tmx", path, tags="text")[0]
    assert unit.source == 'Press <b>F1</b>\n<img alt="picture"/>& wait.\\i' and unit.target == "Appuyez{0}."


def test_tmx_in_a_namespace(tmp_path: Path):
    path = tmp_path / "a.tmx"
    path.write_text(TMX.replace("<tmx ", '<tmx xmlns="http://www.lisa.org/tmx14" '))
    assert read_all("tmx", path)[4][:2] == ("four", "quatre")


@pytest.mark.parametrize(("format", "content", "message"), BROKEN)
def test_broken_file_is_refused_in_one_sentence_with_the_line(
    tmp_path: Path, format: str, content: bytes, message: str
):
    path = tmp_path / f"a.{format}"
    path.write_bytes(content)
    start = time.monotonic()
    with pytest.raises(SegError, match=message) as stop:
        read_all(format, path)
    assert str(stop.value).startswith(f"{path}: ") and "\n" not in str(stop.value) and len(str(stop.value)) < 400
    assert time.monotonic() - start < 10


def test_deep_nesting_is_refused_without_reading_on(tmp_path: Path):
    path = tmp_path / "a.tmx"
    with open(path, "wb") as file:
        file.write(b"<tmx><body><tu><tuv><seg>")
        for _ in range(100):
            file.write(b"<hi>\n" * 200_000)
    assert path.stat().st_size > 100_000_000
    with pytest.raises(SegError, match=r"line 25\d is not valid XML \(Excessive depth"):
        read_all("tmx", path)


def test_large_tmx_is_streamed(tmp_path: Path):
    path = tmp_path / "a.tmx"
    with open(path, "w") as file:
        file.write("<tmx><header/><body>\n")
        file.writelines(UNIT.replace("<seg>a", f"<seg>{'a' * 100}") for _ in range(50_000))
        file.write("</body></tmx>")
    # In a process of its own, because the peak of this one may be high already.
    code = (
        "import lxml.etree, resource, sys; from pathlib import Path\n"
        "from fairseq_seg.store.formats import PairFile, read_pairs\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "count = sum(1 for _ in read_pairs(PairFile('tmx', [Path(sys.argv[1])]), 'en', 'fr'))\n"
        "print(count, peak() - before)"
    )
    output = subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True, text=True).stdout
    count, growth = map(int, output.split())
    # In kilobytes, but for macOS; as a tree the file would take four times its size.
    assert count == 50_000 and growth * (1 if sys.platform == "darwin" else 1024) < path.stat().st_size


def test_codes_survive_tmx_and_come_back(tmp_path: Path):
    path = tmp_path / "a.tmx"
    pair = "<tuv xml:lang='en'><seg>{}</seg></tuv><tuv xml:lang='es-419'><seg>{}</seg></tuv>"
    texts = "This is<ph>&lt;br></ph>a <bpt i='1'>&lt;b></bpt>para<ept i='1'/>", "Es<ph>&lt;br></ph>un"
    path.write_text(f"<tmx><body><tu>{pair.format(*texts)}</tu></body></tmx>")
    [unit] = read_pairs(PairFile("tmx", [path]), "en", "es")
    assert unit[:2] == ("This is<x1/>a <g2>para</g2>", "Es<x1/>un") and unit.attributes == {"target-lang": "es-419"}
    [dropped] = read_pairs(PairFile("tmx", [path]), "en", "es", "drop")
    assert dropped[:2] == ("This is a para", "Es un")
    (tmp_path / "words").mkdir()
    for lang in ("en", "es"):
        (tmp_path / "words" / f"dict.{lang}.txt").write_text("a 1\nis 1\n")
    with TranslationMemory.create(tmp_path / "memory", "en", "es", tmp_path / "words") as memory:
        memory.add_many([unit])
        # Codes are no symbols: what the model and the search see is the text.
        assert memory.pair(1).source_symbols.tolist() == memory.encode("This is a para", "")[0].tolist()
        assert memory.pair(1).source_symbols.tolist() == [3, 5, 4, 3]
        export_file(memory, tmp_path / "out.tmx")
        memory.update(1, target="Es")
        assert memory.pair(1).codes == unit.codes._replace(target={})
    written = (tmp_path / "out.tmx").read_text()
    assert '<seg>This is<ph>&lt;br&gt;</ph>a <bpt i="1">&lt;b&gt;</bpt>para<ept i="1"/></seg>' in written
    assert '<tuv xml:lang="es-419"><seg>Es<ph>&lt;br&gt;</ph>un</seg>' in written


def test_every_variety_of_a_language_gives_its_pairs(tmp_path: Path):
    path = tmp_path / "a.tmx"
    variants = [("pt-BR", "a"), ("pt", "b"), ("en", "x"), ("en-GB", "y"), ("pt-PT", "c")]
    tuvs = "".join(f"<tuv xml:lang='{lang}'><seg>{text}</seg></tuv>" for lang, text in variants)
    path.write_text(f"<tmx><body><tu>{tuvs}</tu></body></tmx>")

    def read(*languages: str) -> list[tuple]:
        return [unit[:2] for unit in read_pairs(PairFile("tmx", [path]), *languages)]

    assert read("en", "pt") == [(source, target) for source in "xy" for target in "abc"]
    assert read("en-GB", "pt_PT") == [("y", "c")]  # a memory of one variety takes that one only
    assert read("en-US", "pt-PT") == [("x", "c"), ("y", "c")]  # or all, if the unit lacks it


def test_a_unit_of_160000_props_and_a_line_of_40_mb_cost_no_minutes(tmp_path: Path):
    props = "<prop type='a'>b</prop>" * 160_000
    (tmp_path / "a.tmx").write_text(f"<tmx><body>{UNIT.replace('<tu>', f'<tu>{props}')}</body></tmx>")
    (tmp_path / "a.tsv").write_text(f"{'a b ' * 10_000_000}\tle\nthe\tle\n")
    start = time.monotonic()
    with create_memory(tmp_path) as memory:
        (_, tmx), (_, tsv) = import_files(memory, [tmp_path / "a.tmx", tmp_path / "a.tsv"])
        assert (tmx.added, tsv.added) == (1, 1) and len(memory.pair(1).attributes["a"]) == 2 * 160_000 - 1
        assert tsv.skipped == {"a side of more than 50,000 characters": 1}
    assert time.monotonic() - start < 60
    endless = "<a/>" * 600_000
    (tmp_path / "b.tmx").write_text(f"<tmx><body>\n{UNIT.replace('<tu>', f'<tu>{endless}')}</body></tmx>")
    with pytest.raises(SegError, match=r"line 2 is within a <tu> of more than 500,000 elements: remove it\."):
        read_all("tmx", tmp_path / "b.tmx")


def test_po(tmp_path: Path):
    path = tmp_path / "a.po"
    path.write_text(PO, encoding="latin-1")
    canada = {"target-lang": "fr-CA"}
    units = sorted(read_all("po", path), key=lambda unit: isinstance(unit, Skipped))
    assert [(*unit[:2], *unit[3:5]) for unit in units[:5]] == [
        ('Open "file"\nnow', 'Ouvrir "le"\nfichier', "9", {"msgctxt": "menu"} | canada),
        ("one file", "un fichier", "21", {"plural": "0"} | canada),
        ("%d files", "%d fichiers", "21", {"plural": "1"} | canada),
        ("%d files", "%d de fichiers", "21", {"plural": "2"} | canada),
        ("summer", "été", "30", canada),
    ]
    assert {unit.origin for unit in units[:5]} == {str(path)}
    assert [unit.reason for unit in units[5:]] == ["a fuzzy message", "an untranslated message", "an obsolete message"]


def test_po_of_a_language_without_plurals_translates_the_plural(tmp_path: Path):
    path = tmp_path / "a.po"
    path.write_text('msgid "one file"\nmsgid_plural "%d files"\nmsgstr[0] "fichier"\n')
    [unit] = read_all("po", path)
    assert unit[:2] == ("%d files", "fichier")


def test_tsv_escapes(tmp_path: Path):
    path = tmp_path / "a.tsv"
    path.write_bytes("\ufeffa\\tb\\\\n\tc\\nd\\r\\q\r\n\r\n\te\u2028\n\n".encode())
    assert [unit[:4] for unit in read_all("tsv", path)] == [
        ("a\tb\\n", "c\nd\r\\q", str(path), "1"),
        ("", "e\u2028", str(path), "3"),
    ]


def test_two_text_files(tmp_path: Path):
    source, target = tmp_path / "a.en", tmp_path / "a.fr"
    source.write_bytes(b"a\\tb\r\n\nc\rd")
    target.write_bytes(b"x\ty\n\nz\n")
    assert [unit[:4] for unit in read_all("text", source, target)] == [
        ("a\\tb", "x\ty", str(source), "1"),
        ("", "", str(source), "2"),
        ("c\rd", "z", str(source), "3"),
    ]
    target.write_bytes(b"x\ny\n")
    with pytest.raises(SegError, match=f"{target} ends before line 3"):
        read_all("text", source, target)
    with pytest.raises(SegError, match=f"{target} ends before line 3"):
        read_all("text", target, source)


def test_format_by_name():
    def formats(*names: str, format: str | None = None) -> list[tuple[str, int]]:
        files = find_pair_files([Path(name) for name in names], format, SOURCE, TARGET)
        return [(file.format, len(file.files)) for file in files]

    assert formats("a.TMX", "b.po", "c.tsv") == [("tmx", 1), ("po", 1), ("tsv", 1)]
    assert formats("a.en", "a.fr") == [("text", 2)] and formats("a", "b", format="text") == [("text", 2)]
    assert formats("a", "b.tmx", format="tsv") == [("tsv", 1), ("tsv", 1)]
    for names, format, message in [
        (
            ["a.fr", "a.en"],
            None,
            "a.fr does not tell its format: give --format (tmx, xliff, po, tsv, text).",
        ),
        (["a.text"], None, "The name of a.text does not tell"),
        (["a.en"], "text", "Format text takes two files, a source and a target, not 1."),
    ]:
        with pytest.raises(SegError, match=re.escape(message)):
            formats(*names, format=format)


PIECES = [
    "Name1",
    "le",
    " ",
    "\t",
    "\n",
    "\r",
    "\\",
    "\\n",
    '"',
    "'",
    "<b>",
    "&amp;",
    "&",
    "]]>",
    "\u2028",
    "\x85",
    "é",
    "🙂",
    "<x1/>",
    "</g2>",
]


def random_text(rng: random.Random) -> str:
    return "".join(rng.choices(PIECES, k=rng.randint(0, 6)))


def random_pieces(rng: random.Random) -> list[str | Code]:
    """Return texts with codes of TMX; what opens or closes a text is sometimes only half there."""
    pieces: list[str | Code] = [random_text(rng)]
    for number in range(rng.choice([0, 0, 1, 2])):
        open_, close = f'<bpt i="{number}" x="{number}">&lt;b&gt;</bpt>', f'<ept i="{number}">&amp;</ept>'
        kind = rng.choice(["alone", "pair", "hi", "half"])
        if kind == "pair":
            pieces += [Code("open", f"bpt x={number}", open_), "c", Code("close", f"bpt x={number}", close)]
        elif kind == "hi":
            pieces += [Code("open", "hi  ", "<hi>"), random_text(rng), Code("close", "hi  ", "</hi>")]
        elif kind == "half":
            pieces.append(Code("open", f"bpt x={number}", open_))
        else:
            pieces.append(Code("alone", "ph  {0}", '<ph>{0}<sub type="x">le</sub>\\</ph>'))
        pieces.append(random_text(rng))
    return pieces


def test_what_is_written_reads_back(tmp_path: Path):
    rng = random.Random(1)
    names = ["x-origin", "note", "creationid", "creationdate", "", "client", "tuid", "segtype"]
    units = []
    for _ in range(300):
        attributes = {name: random_text(rng) for name in rng.sample(names, k=rng.randint(0, 3))}
        created = f"20{rng.randint(10, 26)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}T10:20:30Z"
        coded = number_codes(["a", *random_pieces(rng)], [*random_pieces(rng), "b"])
        texts = coded[0].text, coded[1].text, random_text(rng), random_text(rng)
        changed = rng.choice([None, "2026-10-31T01:02:03Z"])
        units.append(TranslationUnit(*texts, attributes, created, changed, Codes.of("tmx", coded)))

    def without_ids(memory: TranslationMemory) -> list[tuple]:
        return [
            (*entry[1:3], *entry[5:10], entry.codes, entry.source_symbols.tolist(), entry.target_symbols.tolist())
            for entry in memory.pairs()
        ]

    memories = []
    for name in ("first", "tmx", "xliff", "tsv"):
        (tmp_path / name).mkdir()
        memories.append(create_memory(tmp_path / name))
    first, from_tmx, from_xliff, from_tsv = memories
    assert first.add_many(units).skipped.total() == 0
    first.delete(3)  # ids with a gap
    for memory, format in ((from_tmx, "tmx"), (from_xliff, "xliff"), (from_tsv, "tsv")):
        write_pairs(first.pairs(), tmp_path / "out", format, SOURCE, TARGET)
        memory.add_many(read_all(format, tmp_path / "out", tags="codes"))
        assert len(memory) == len(first) > 250
    assert without_ids(from_tmx) == without_ids(first)
    # XLIFF has ids where TMX has contents, so that TMX's codes come back as XLIFF's, with the TMX within.
    assert [row[:7] for row in without_ids(from_xliff)] == [row[:7] for row in without_ids(first)]
    for ours, theirs in zip(first.pairs(), from_xliff.pairs(), strict=True):
        assert ours.codes.source.keys() == theirs.codes.source.keys()
        assert {escape(code) for code in ours.codes.target.values()} == {
            re.sub("^<[^>]*>|<[^>]*>$", "", code) for code in theirs.codes.target.values()
        }
    assert [entry[1:3] for entry in from_tsv.pairs()] == [entry[1:3] for entry in first.pairs()]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "out", "tmx", "tsv", "xliff"]
    for memory in memories:
        memory.close()


def test_file_is_written_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "a.tmx"
    path.write_text("old")
    with create_memory(tmp_path) as memory:
        memory.add("the", "le")

        def interrupted():
            yield from memory.pairs()
            raise KeyboardInterrupt

        for format in ("tmx", "tsv"):
            with pytest.raises(KeyboardInterrupt):
                write_pairs(interrupted(), path, format, SOURCE, TARGET)
    assert path.read_text() == "old" and not path.with_name("a.tmx.new").exists()


def test_import_and_export_from_python(tmp_path: Path):
    (tmp_path / "a.tsv").write_text("the\tle\nthe\tle\nalone\t\n")
    with create_memory(tmp_path) as memory:
        [(name, counts)] = import_files(memory, [tmp_path / "a.tsv"])
        assert name == tmp_path / "a.tsv"
        assert (counts.added, counts.present, counts.skipped) == (
            1,
            1,
            {"an empty side": 1},
        )
        assert str(counts).startswith("1 added, 0 updated, 1 already there, 1 skipped (an empty side: 1)")
        assert export_file(memory, tmp_path / "out.TSV") == 1
        assert (tmp_path / "out.TSV").read_text() == "the\tle\n"
        with pytest.raises(SegError, match="The name of out does not tell its format"):
            export_file(memory, Path("out"))
        (tmp_path / "b.tsv").write_text("an\tun\nbroken\n")
        (tmp_path / "c.tsv").write_text("the\tla\n")
        files = [tmp_path / name for name in ("b.tsv", "none.tsv", "c.tsv")]
        (bad, error), (none, missing), (good, counts) = import_files(memory, files)
        assert [bad, none, good] == files and counts.added == 1
        assert str(error).startswith(f"{bad}: line 2 has 1 columns")
        assert str(missing) == f"{none} cannot be read: No such file or directory."
        assert pairs(memory) == [("the", "le"), ("the", "la")]
