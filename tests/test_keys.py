"""The file of API keys."""

import os
from pathlib import Path

import pytest

from fairseq_seg.cli import serve
from fairseq_seg.errors import SegError
from fairseq_seg.serve.keys import Everybody, KeyFile, hash_of, new_key
from fairseq_seg.serve.refusal import Refusal

MEMORIES = ["a.mem", "b.mem", "train"]


def table(name: str, key: str, read: list[str], write: list[str]) -> str:
    return f'[{name}]\nkey = "{hash_of(key)}"\nread = {read}\nwrite = {write}\n'


def write(path: Path, *tables: str) -> Path:
    path.write_text("\n".join(tables))
    return path


def test_a_key_gives_its_rights_and_no_other_does(tmp_path):
    keys = KeyFile(
        write(tmp_path / "keys", table("ann", "k1", ["a.mem"], ["a.mem"]), table("bob", "k2", ["b.mem"], [])), MEMORIES
    )
    ann = keys.client("k1")
    assert (ann.name, ann.read, ann.write) == ("ann", {"a.mem"}, {"a.mem"})
    assert keys.client("k2").write == set()
    for wrong in ("", "k", "k11", "K1", hash_of("k1"), "anonymous", "ann", "\ud800"):
        with pytest.raises(Refusal) as refused:
            keys.client(wrong)
        assert refused.value.status == 403
    assert keys.required


def test_requests_without_a_key_may_have_rights(tmp_path):
    keys = KeyFile(write(tmp_path / "keys", '[anonymous]\nread = ["train"]'), MEMORIES)
    assert keys.client("").read == {"train"} and not keys.required
    with pytest.raises(Refusal):
        keys.client("anonymous")


def test_without_a_file_everybody_may_do_everything():
    assert Everybody(MEMORIES).client("whatever").write == set(MEMORIES)


def test_a_changed_file_counts_at_once_and_a_damaged_one_does_not(tmp_path):
    path = write(tmp_path / "keys", table("ann", "k1", [], []))
    keys = KeyFile(path, MEMORIES)
    write(path, table("ann", "k2", ["a.mem"], []))
    os.utime(path, ns=(1, 1))
    assert keys.client("k2").read == {"a.mem"}
    with pytest.raises(Refusal):
        keys.client("k1")
    write(path, "[ann")
    os.utime(path, ns=(2, 2))
    assert keys.client("k2").name == "ann"
    path.unlink()
    assert keys.client("k2").name == "ann"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a", "is not a TOML file"),
        ("a = 1", "is not a client"),
        ('[a]\nkey = "secret"', "has no hash of a key"),
        ("[a]\nread = []", "has no hash of a key"),
        (table("a", "k", ["c.mem"], []), "names c.mem, which the server does not serve"),
        (table("a", "k", [], []) + table("b", "k", [], []), r"the same key as \[a\]"),
        (table("anonymous", "k", [], []), "without a key"),
        (table("a", "k", [], []) + "admin = true", "is not a client"),
        (table("a", "k", [], []).replace("read = []", 'read = "train"'), "are lists"),
    ],
)
def test_what_is_wrong_with_the_file_is_said_at_the_start(text, message, tmp_path):
    with pytest.raises(SegError, match=message):
        KeyFile(write(tmp_path / "keys", text), MEMORIES)
    with pytest.raises(SegError, match="cannot be read"):
        KeyFile(tmp_path / "none", MEMORIES)


def test_a_new_key_fits_its_table(tmp_path, capsys):
    key, text = new_key("ann")
    assert KeyFile(write(tmp_path / "keys", text), MEMORIES).client(key).name == "ann"
    assert key not in text and len(key) >= 43
    serve.main(["--new-key", "bob"])
    assert "[bob]\nkey = " in capsys.readouterr().out
