"""seg-memory: each command end to end, and what it says to bad input."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_seg.cli.memory import main
from fairseq_seg.store.store import TranslationMemory
from tests.corpus import SOURCE, TARGET
from tests.memories import create_memory, pairs
from tests.memory_files import BROKEN, PO, TMX


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return an empty memory."""
    create_memory(tmp_path).close()
    return tmp_path / "memory"


def contents(path: Path) -> list[tuple[str, str]]:
    with TranslationMemory(path, read_only=True) as memory:
        return pairs(memory)


def stop(*arguments: object) -> str:
    """Run a command that must stop, and return its one sentence."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert "\n" not in str(end.value)
    return str(end.value)


def run(*arguments: object) -> None:
    main([str(argument) for argument in arguments])


def test_create(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    run("create", tmp_path / "new", "--data-bin", tmp_path / "words", "-s", SOURCE, "-t", TARGET)
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == ["dict.en.txt", "dict.fr.txt", "memory.sqlite"]
    assert "new: texts in fr must be symbols already\n" in capsys.readouterr().out
    run("stats", tmp_path / "new")
    assert capsys.readouterr().out.splitlines()[:2] == ["languages       en-fr", "pairs           0"]
    message = stop("create", tmp_path / "x", "--data-bin", tmp_path / "none", "-s", SOURCE, "-t", TARGET)
    assert "dict.en.txt cannot be read (No such file or directory): name the --destdir" in message
    model = ("--spm-source", tmp_path / "words" / "train.en")
    message = stop("create", tmp_path / "x", "--data-bin", tmp_path / "words", "-s", SOURCE, "-t", TARGET, *model)
    assert "train.en is missing or is not a sentencepiece model" in message
    assert not (tmp_path / "x").exists() and not (tmp_path / "x.part").exists()


def test_import_export_and_import_again(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    (tmp_path / "a.tmx").write_text(TMX)
    (tmp_path / "a.po").write_text(PO, encoding="latin-1")
    (tmp_path / "a.tsv").write_text("tab\\ta\tsep\nseven\t\n" + "long " * 1001 + "\tx\n")
    run("import", path, tmp_path / "a.tmx", tmp_path / "a.po", tmp_path / "a.tsv")
    unknown = "of the new symbols are unknown to the dictionaries"
    skipped = "no text in fr: 1; an entity that the file does not define: 1; an empty side: 1"
    others = "the languages of those without one of the memory's: en 1, de 1"
    messages = "a fuzzy message: 1; an untranslated message: 1; an obsolete message: 1"
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/a.tmx: 4 added, 0 updated, 0 already there, 3 skipped ({skipped}); {others}; 100.00% {unknown}",
        f"{tmp_path}/a.po: 5 added, 0 updated, 0 already there, 3 skipped ({messages}); 90.48% {unknown}",
        f"{tmp_path}/a.tsv: 1 added, 0 updated, 0 already there, 2 skipped "
        f"(an empty side: 1; a side of more than 1,000 symbols: 1); 66.67% {unknown}",
    ]
    run("import", path, tmp_path / "a.tmx")
    again = f"0 added, 0 updated, 4 already there, 3 skipped ({skipped}); {others}"
    assert capsys.readouterr().out == f"{tmp_path}/a.tmx: {again}\n"
    run("import", path, "--format", "text", tmp_path / "words" / "train.en", tmp_path / "words" / "train.fr")
    first = contents(path)
    run("export", path, tmp_path / "out.tmx")
    assert capsys.readouterr().out.endswith(f"out.tmx: {len(first)} pairs\n")
    run("create", tmp_path / "new", "--data-bin", tmp_path / "words", "-s", SOURCE, "-t", TARGET)
    run("import", tmp_path / "new", tmp_path / "out.tmx")
    assert contents(tmp_path / "new") == first and len(first) > 20
    run("export", tmp_path / "new", tmp_path / "again", "--format", "tmx")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "out.tmx").read_bytes()
    run("export", path, tmp_path / "out.tsv")
    assert "tab\\ta\tsep\n" in (tmp_path / "out.tsv").read_text()


def test_import_options(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    (tmp_path / "a.tmx").write_text(TMX)
    run("import", path, tmp_path / "a.tmx", "--tags", "text")
    assert contents(path)[0][1] == "Appuyez{0}."
    run("import", path, tmp_path / "a.tmx")
    assert contents(path)[4] == ("Press <g1>F1</g1>\n<x2/>& <g3>wait</g3>.<x4/>", "Appuyez<x5/>.")
    run("import", path, tmp_path / "a.tmx", "--tags", "drop")
    assert contents(path)[5] == ("Press F1\n& wait.", "Appuyez.")
    run("delete", path, 3, 5, 6)
    (tmp_path / "b").write_text("two\tzwei\nfour\tquatre\nfive words in a side\tx\n")
    run("import", path, tmp_path / "b", "--format", "tsv", "--conflict", "skip", "--max-symbols", 4)
    skipped = "a side of more than 4 symbols: 1; a source that has another target: 1"
    assert f"b: 0 added, 0 updated, 1 already there, 2 skipped ({skipped})" in capsys.readouterr().out
    run("import", path, tmp_path / "b", "--format", "tsv", "--conflict", "overwrite")
    assert capsys.readouterr().out.startswith(f"{tmp_path}/b: 1 added, 1 updated, 1 already there, 0 skipped")
    assert contents(path)[1] == ("two", "zwei")


@pytest.mark.parametrize(("format", "content", "message"), BROKEN)
def test_a_broken_file_imports_nothing_and_does_not_keep_others_out(
    path: Path, tmp_path: Path, format: str, content: bytes, message: str, capsys: pytest.CaptureFixture
):
    (tmp_path / "good.tsv").write_text("the\tle\n")
    (tmp_path / "other.tsv").write_text("the\tun\n")
    bad = tmp_path / f"bad.{format}"
    bad.write_bytes(content)
    end = stop("import", path, tmp_path / "good.tsv", bad, tmp_path / "other.tsv")
    assert end == "seg-memory: 1 of 3 files imported nothing, for the reasons above."
    said = [line for line in capsys.readouterr().err.split("\n") if str(bad) in line]
    assert len(said) == 1 and re.search(rf"{re.escape(str(bad))}: .*{message}", said[0])
    assert contents(path) == [("the", "le"), ("the", "un")]


def test_add_update_delete(path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    run("add", path, "the", "le", "--attribute", "client=ACME", "--attribute", "a=b=c", "--origin", "by hand")
    run("add", path, "the", "le")
    lines = "the\tun\r\nno\\nline\taucun\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    run("add", path)
    assert capsys.readouterr().out == "1\n1\n2\n3\n"
    run("add", path, "the", "la", "--conflict", "overwrite")
    assert capsys.readouterr().out == "1\n" and contents(path) == [("the", "la"), ("no\nline", "aucun")]
    run("update", path, 3, "--target", "Secret1", "--attribute", "client=ACME")
    run("update", path, 3, "--attribute", "project=x")
    with TranslationMemory(path, read_only=True) as memory:
        assert memory.pair(3).target == "Secret1"
        assert memory.pair(3).attributes == {"client": "ACME", "project": "x"}
    run("delete", path, 1, 3)
    assert contents(path) == []


def test_bad_line_of_standard_input_comes_after_the_good_ones(
    path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the\tle\nbad\nan\tun\n")))
    assert stop("add", path) == "standard input: line 2 has 1 columns, not a source and a target: correct it."
    assert capsys.readouterr().out == "1\n" and contents(path) == [("the", "le")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("stats {path}/none", "{path}/none is not a translation memory: make one with `seg-memory create`."),
        ("import {path} none.tmx", "seg-memory: 1 of 1 files imported nothing, for the reasons above."),
        ("import {path} {path}/dict.en.txt", "The name of {path}/dict.en.txt does not tell its format: give --format"),
        ("import {path} a.en a.fr a.de --format text", "Format text takes two files, a source and a target, not 3."),
        ("export {path} out.csv", "The name of out.csv does not tell its format: give --format (tmx, xliff, tsv)."),
        (
            "export {path} {path}/no/out.tsv",
            "seg-memory: {path}/no/out.tsv cannot be read or written: No such file or directory.",
        ),
        ("add {path} alone", "Give a source and a target, or neither"),
        ("add {path} the \x07", "The pair cannot be added to {path}: it has a control character."),
        ("update {path} 1", "Nothing to change: give --source, --target or --attribute."),
        ("update {path} 1 --target x", "{path} has no pair 1."),
        ("delete {path} 1", "{path} has no pair 1."),
    ],
)
def test_errors_are_one_sentence(path: Path, arguments: str, message: str):
    assert stop(*arguments.format(path=path).split(" ")).startswith(message.format(path=path))


@pytest.mark.parametrize("arguments", [["delete", "m", "0"], ["delete", "m", "x"], ["add", "m", "--attribute", "x"]])
def test_wrong_values_of_options(arguments: list[str], capsys: pytest.CaptureFixture):
    with pytest.raises(SystemExit):
        main(arguments)
    assert " is not " in capsys.readouterr().err.splitlines()[-1]


def test_real_process_needs_no_java_and_shows_no_traceback(path: Path, tmp_path: Path):
    def process(*arguments: object) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "fairseq_seg.cli.memory", *map(str, arguments)]
        environment = {**os.environ, "PATH": "", "JAVA_HOME": str(tmp_path / "none")}
        return subprocess.run(command, env=environment, input="", capture_output=True, text=True)

    assert process("add", path, "the", "le").stdout == "1\n"
    assert process("add", path).stdout == ""
    (tmp_path / "a.tmx").write_bytes(b"<tmx>\n<body>")
    result = process("import", path, tmp_path / "a.tmx")
    assert result.returncode == 1 and "line 2 is not valid XML" in result.stderr
    assert "Traceback" not in result.stderr and contents(path) == [("the", "le")]


@pytest.mark.parametrize("steering", ["\x1b[31m", "\x9b31m", "\x7f", "\x85", "\u202e", "\u2066"])
def test_nothing_that_a_memory_holds_can_steer_a_terminal(path: Path, steering: str, capsys: pytest.CaptureFixture):
    """A memory of somebody else may hold anything, whatever `add` would refuse."""
    with TranslationMemory(path) as memory:
        memory.add("the", "le")
        values = (f"the{steering}", f"le{steering}", f"{steering}origin")
        memory._database.execute("UPDATE entries SET source = ?, target = ?, origin = ?", values)
    run("search", path, "the")
    hidden = "\ufffd" + steering[1:]
    assert capsys.readouterr().out == f"1.0000\t1\tthe{hidden}\tle{hidden}\t{hidden}origin\n"


def test_names_of_files_and_headers_cannot_steer_a_terminal(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    file = tmp_path / "a\x1b[31m\u202e.po"
    file.write_text('msgid ""\nmsgstr "Language: xx\x1b[31m\x9b\\n"\n\nmsgid "the"\nmsgstr "le"\n', encoding="utf-8")
    stop("import", path, file)
    message = capsys.readouterr().err
    assert "it translates to xx" in message and not set("\x1b\x9b\u202e") & set(message)
    good = tmp_path / "b\x1b[31m\u202e.tsv"
    good.write_text("the\tle\n")
    run("import", path, good)
    run("export", path, tmp_path / "c\x1b[31m\u202e.tsv")
    printed = capsys.readouterr()
    assert not set("\x1b\u202e") & set(printed.out + printed.err)


@pytest.mark.parametrize("command", ["add", "search"])
def test_standard_input_that_is_not_utf8(path: Path, command: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the\tle\n\xff\tle\n")))
    assert stop(command, path) == "standard input: line 2 is not UTF-8 text: convert the file first."


def test_an_export_follows_no_link(path: Path, tmp_path: Path):
    run("add", path, "the", "le")
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "out.tsv").symlink_to(precious)
    run("export", path, tmp_path / "out.tsv")
    assert precious.read_text() == "mine" and (tmp_path / "out.tsv").read_text() == "the\tle\n"


@pytest.mark.parametrize("arguments", [["delete"], ["update", "--target", "x"]])
def test_an_id_too_large_for_the_database(path: Path, arguments: list[str]):
    message = stop(arguments[0], path, 2**70, *arguments[1:])
    assert "memory.sqlite cannot be used: Python int too large to convert to SQLite INTEGER." in message
