"""seg-translate from files to files: what is translated, marked, counted and resumed, with a trained model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairseq_seg import Translator
from fairseq_seg.cli import model as seg_model
from fairseq_seg.cli import translate as seg_translate
from fairseq_seg.documents.segment import Segment
from fairseq_seg.errors import SegError
from fairseq_seg.localize.files import check_outputs, find_jobs
from fairseq_seg.localize.journal import Journal, Result
from fairseq_seg.localize.paragraphs import join_paragraphs, split_paragraphs
from fairseq_seg.store.store import TranslationMemory
from tests.attached_corpus import PLUGIN, prepare
from tests.corpus import SOURCE, TARGET, Corpus, make_corpus
from tests.document_files import segments
from tests.memories import unprivileged
from tests.stock import TRAINING, run_stock

OPTIONS = ["--cpu", "--beam=2", "--max-len-a=0", "--max-len-b=20", "--memory-k=2"]


@pytest.fixture(scope="module")
def small() -> Corpus:
    return make_corpus(seed=3, groups=60, held_out=15)


@pytest.fixture(scope="module")
def model(small: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    attached = prepare(small, tmp_path_factory.mktemp("files"))
    sizes = ["--hidden-size", 32, "--embed-dim", 32, "--memory-k", 2, "--max-epoch", 3, "--disable-validation"]
    run_stock("train", attached, *PLUGIN, *TRAINING, *sizes, "--save-dir", attached.parent / "checkpoints")
    checkpoint, folder = attached.parent / "checkpoints" / "checkpoint_last.pt", attached.parent / "model"
    seg_model.main([str(attached), "--path", str(checkpoint), "--output", str(folder), "--memory-k=2"])
    return folder


@pytest.fixture
def sources(small: Corpus) -> list[str]:
    return [pair.source for pair in small.test]


def run(*arguments: object) -> None:
    seg_translate.main([*map(str, arguments)])


def po(*entries: str) -> str:
    header = '"Content-Type: text/plain; charset=UTF-8\\n"\n"Plural-Forms: nplurals=2; plural=n>1;\\n"\n'
    return f'msgid ""\nmsgstr ""\n{header}\n' + "\n".join(entries)


def entry(source: str, target: str = "", before: str = "") -> str:
    return f'{before}msgid "{source}"\nmsgstr "{target}"\n'


def xliff(*units: str) -> str:
    body = "".join(f'<trans-unit id="{number}">{unit}</trans-unit>\n' for number, unit in enumerate(units))
    file = '<file original="a" source-language="en" target-language="fr" datatype="plaintext">'
    return f'<xliff version="1.2">{file}<body>\n{body}</body></file></xliff>\n'


def test_files_of_all_formats_get_the_translations_of_the_translator(model, sources, tmp_path, capsys):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a.po").write_text(po(entry(sources[0]), entry(sources[1], "fait"), entry(sources[2])))
    (tmp_path / "in" / "deep" / "b.xlf").write_text(xliff(f"<source>{sources[0]}</source>"))
    (tmp_path / "in" / "c.txt").write_text(f"{sources[3]}\n\n{sources[3]}\n")
    (tmp_path / "in" / "not.docx").write_text("?")
    run(model, tmp_path / "in", "-o", tmp_path / "out", "--json", *OPTIONS)
    with Translator(model, arguments=OPTIONS) as translator:
        expected = dict(zip(sources, (found.text for found in translator.translate(sources)), strict=True))
    po_file, xliff_file, text = (tmp_path / "out" / name for name in ("a.po", "deep/b.xlf", "c.txt"))
    assert [segment.target for segment in segments(po_file).values()] == [
        expected[sources[0]],
        "fait",
        expected[sources[2]],
    ]
    assert [segment.target for segment in segments(xliff_file).values()] == [expected[sources[0]]]
    assert text.read_text() == f"{expected[sources[3]]}\n\n{expected[sources[3]]}\n"
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file() and "out" in path.parts) == [
        "a.po",
        "b.xlf",
        "c.txt",
    ]
    counts = json.loads(capsys.readouterr().out)
    assert [
        (counts[str(file)]["translated"], counts[str(file)]["repeated"]) for file in (po_file, xliff_file, text)
    ] == [
        (2, 0),
        (1, 1),
        (2, 1),
    ]
    assert counts[str(po_file)]["done"] == 1


def test_an_exact_match_is_final_and_everything_else_is_not(model, sources, tmp_path):
    with TranslationMemory.create(tmp_path / "own.mem", SOURCE, TARGET, model) as memory:
        memory.add(sources[0], "un un")
        memory.add(f"{sources[0]}\n{sources[1]}", "deux\ntrois")
        memory.add(f"{sources[2]} %s", "sans")
    lines = f"{sources[0]}\\n{sources[1]}"
    (tmp_path / "a.po").write_text(po(entry(sources[0]), entry(lines), entry(f"{sources[2]} %s"), entry(sources[3])))
    memories = f"{tmp_path / 'own.mem'},train"
    run(model, tmp_path / "a.po", "--memory", memories, "--exact", "copy", *OPTIONS)
    text = (tmp_path / "a.fr.po").read_text()
    assert f'\nmsgid "{sources[0]}"\nmsgstr "un un"\n' in text
    assert 'msgstr ""\n"deux\\n"\n"trois"\n' in text or '"deux\\n"\n"trois"' in text
    assert text.count("#, fuzzy") == 2 and "100 % match: own.mem:3 (check: lost placeholder %s)" in text


def test_a_previous_version_comes_first(model, sources, tmp_path):
    old = " ".join([*sources[0].split()[:-1], "Name1"])
    (tmp_path / "a.po").write_text(po(entry(sources[0], "le vieux", f'#, fuzzy\n#| msgid "{old}"\n')))
    run(model, tmp_path / "a.po", "-o", tmp_path / "same.po", *OPTIONS)
    assert (tmp_path / "same.po").read_bytes() == (tmp_path / "a.po").read_bytes()
    run(model, tmp_path / "a.po", "-o", tmp_path / "new.po", "--fuzzy", *OPTIONS)
    assert "match: previous version" in (tmp_path / "new.po").read_text()
    with Translator(model, arguments=OPTIONS) as translator:
        [found] = translator.translate([sources[0]], previous=[(old, "le vieux")])
        assert [pair.origin.split(":")[0] for pair in found.pairs] == ["previous version", "train"]
        assert found.pairs[0].score == pytest.approx(1 - 1 / len(sources[0].split()))
        [same] = translator.translate([sources[0]], previous=[(sources[0], "le vieux")])
        assert [pair.origin.split(":")[0] for pair in same.pairs] == ["train", "train"]


def test_codes_come_back_and_lines_without_words_stay(model, sources, tmp_path):
    words = sources[0].split()
    coded = f'<g id="1">{words[0]} {words[1]}</g> {" ".join(words[2:])} <x id="2"/>'
    (tmp_path / "a.xlf").write_text(xliff(f"<source>{coded}</source>", "<source>12 <x id='1'/> %s</source>"))
    run(model, tmp_path / "a.xlf", "-o", tmp_path / "b.xlf", *OPTIONS)
    first, second = segments(tmp_path / "b.xlf").values()
    with Translator(model, arguments=OPTIONS) as translator:
        [plain] = translator.translate([sources[0]])
    assert first.target.replace("<g1>", "").replace("</g1>", "").replace("<x2/>", "").split() == plain.text.split()
    assert all(first.target.count(token) == 1 for token in ("<g1>", "</g1>", "<x2/>"))
    assert second.target == second.source == "12 <x1/> %s"


def test_a_killed_run_resumes(model, sources, tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"{source} {word}\n" for source in sources for word in range(60)))
    command = [sys.executable, "-m", "fairseq_seg.cli.translate", str(model), str(tmp_path / "a.txt"), *OPTIONS]
    journal, output = tmp_path / "a.fr.txt.part", tmp_path / "a.fr.txt"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in iter(lambda: process.stderr.read(1), ""):  # until the first block is done
        if line == "%" and journal.exists() and _done(journal, process):
            break
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert journal.exists() and not output.exists()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    first = done.stderr.split("translating:")[1]
    assert " 0/" not in first  # it starts where the other was
    assert len(output.read_text().splitlines()) == len(sources) * 60 and not journal.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.fr.txt", "a.txt"]


def _done(journal: Path, process: subprocess.Popen) -> bool:
    """Tell whether some translations are in the journal: the process has it locked, so by its size."""
    time.sleep(0.05)
    return process.poll() is not None or b'"final"' in journal.read_bytes()


def test_a_bad_file_does_not_stop_the_others(model, sources, tmp_path, capsys):
    (tmp_path / "a.po").write_text(po(entry(sources[0]), entry(sources[0])))
    (tmp_path / "b.txt").write_text(sources[0])
    (tmp_path / "c.po").write_text(entry(sources[0]))
    (tmp_path / "d.txt").write_text("")
    names = [tmp_path / name for name in ("a.po", "b.txt", "c.po", "d.txt")]
    with pytest.raises(SystemExit) as stop:
        run(model, *names, "-o", tmp_path / "out", *OPTIONS)
    shown = capsys.readouterr()
    assert stop.value.code == 1 and "b.txt: 1 segments, 1 translated" in shown.out
    assert "a.po: line 9 repeats the message of line 6" in shown.err
    assert "c.po has no header with a charset" in shown.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["b.txt", "d.txt"]


def test_what_the_charset_lacks_is_left_and_counted(model, sources, tmp_path, capsys):
    with TranslationMemory.create(tmp_path / "own.mem", SOURCE, TARGET, model) as memory:
        memory.add(sources[0], "\u65e5\u672c")
    text = po(entry(sources[0])).replace("UTF-8", "ISO-8859-1")
    (tmp_path / "a.po").write_text(text)
    run(model, tmp_path / "a.po", "--memory", tmp_path / "own.mem", "--exact", "copy", *OPTIONS)
    assert (tmp_path / "a.fr.po").read_text() == text and "1 are left untranslated" in capsys.readouterr().out


def test_what_cannot_be_done_is_said_before_the_work(model, sources, tmp_path):
    (tmp_path / "a.txt").write_text(sources[0])

    def message(*arguments: object) -> str:
        with pytest.raises(SystemExit) as stop:
            run(model, *arguments)
        assert "\n" not in str(stop.value.code)
        return str(stop.value.code)

    assert "none.txt does not exist" in message(tmp_path / "none.txt")
    (tmp_path / "empty").mkdir()
    assert "has no file of a format that is known" in message(tmp_path / "empty")
    (tmp_path / "a.fr.txt").mkdir()
    assert "a.fr.txt is a folder: name a file with -o" in message(tmp_path / "a.txt")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.txt").touch()
    assert "would both be written to" in message(tmp_path / "a.txt", tmp_path / "b" / "a.txt", "-o", tmp_path / "out")
    (tmp_path / "x.docx").touch()
    assert "does not tell its format: give --format" in message(tmp_path / "x.docx")
    assert "is not an option of --analyse" in message(tmp_path / "a.txt", "--analyse", "--beam=3")
    journal = Journal(tmp_path / "o.txt.part", "")
    assert "another seg-translate is writing the same output" in message(tmp_path / "a.txt", "-o", tmp_path / "o.txt")
    journal.close(remove=True)


def test_a_read_only_folder_is_said_before_the_work(tmp_path):
    (tmp_path / "a.txt").touch()
    (tmp_path / "closed").mkdir(mode=0o555)
    ours = (folder for folder in tmp_path.parents if folder.name.startswith(("pytest-", "popen-")))
    for folder in (tmp_path, *ours):
        folder.chmod(0o755)
    jobs = find_jobs([tmp_path / "a.txt"], tmp_path / "closed" / "o.txt", "fr")

    def refused() -> str:
        try:
            check_outputs(jobs)
        except SegError as error:
            return str(error)
        return "accepted"

    assert unprivileged(refused) == f"{tmp_path / 'closed'} cannot be written to: name another place with -o."


def test_a_full_disk_leaves_nothing_half_written(model, sources, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(sources))
    (tmp_path / "out.txt").write_text("before")
    program = (
        "import resource, sys; from fairseq_seg.cli.translate import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); import signal; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, str(model), str(tmp_path / "a.txt"), "-o", str(tmp_path / "out.txt")]
    done = subprocess.run([*command, *OPTIONS], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "make room" in done.stderr.splitlines()[-1] or "cannot be read or written" in done.stderr.splitlines()[-1]
    assert (tmp_path / "out.txt").read_text() == "before"


def test_the_page_for_reviewers(model, sources, tmp_path):
    (tmp_path / "a.po").write_text(po(entry(sources[0]), entry(f"{sources[1]} <b>%d</b>")))
    run(model, tmp_path / "a.po", "-o", tmp_path / "b.po", "--html", tmp_path / "page.html", *OPTIONS)
    page = (tmp_path / "page.html").read_text()
    assert page.count("<article ") == 2 and "line 6</a>" in page
    assert 'class="w g' in page and "<select name=band>" in page and "lost tag" in page
    assert "&lt;b&gt;%d" in page and "<b>%d" not in page
    assert "<ins>" in page and "<del>" in page and "train:" in page


def test_the_journal_keeps_what_was_done(tmp_path):
    one, two = (Segment(str(number), number, f"text {number}") for number in range(2))
    journal = Journal(tmp_path / "j", "model 1")
    journal.add([one, two, one])
    [first, _] = journal.waiting(10)
    journal.save([first], [Result("deux", pair=None, flags=("unknown",))])
    journal.close(remove=False)
    journal = Journal(tmp_path / "j", "model 1")
    assert (journal.count(done=True), journal.count(done=False)) == (1, 1)
    assert sorted(str(journal.result(segment)) for segment in (one, two))[0] == "None"
    journal.close(remove=False)
    journal = Journal(tmp_path / "j", "model 2")
    assert (journal.count(done=True), journal.count(done=False)) == (0, 0)
    journal.close(remove=True)
    assert not list(tmp_path.iterdir())


WRAPPED = (
    "Write the words to the standard output, each of them\nseparated by a single space and followed by a\nnewline."
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One line", ["One line"]),
        ("First.\nSecond.\n\nThird", ["First.", "Second.", "Third"]),
        ("Usage: %s\n  -x   do it\n  -y   or that", ["Usage: %s", "-x   do it", "-y   or that"]),
        (WRAPPED, [WRAPPED.replace("\n", " ")]),
        (
            f"Title.\n\n    {WRAPPED}".replace("\nsep", "\n    sep").replace("\nnew", "\n    new"),
            ["Title.", WRAPPED.replace("\n", " ")],
        ),
    ],
)
def test_paragraphs_are_cut_and_joined(text, parts):
    paragraphs = split_paragraphs(text)
    assert [paragraph.text for paragraph in paragraphs] == parts
    joined = join_paragraphs(paragraphs, parts)
    assert joined.split() == text.split() and joined.count("\n\n") == text.count("\n\n")
    assert max(map(len, joined.split("\n"))) <= max(map(len, text.split("\n")))
    assert "Write" in text or joined == text
