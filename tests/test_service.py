"""Which model a request for a pair of languages goes to, and what divides memories among models."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.requests import Request

from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.errors import SegError
from fairseq_seg.serve.files import MOST_RESULTS, RESULT_SECONDS, Results
from fairseq_seg.serve.keys import Everybody
from fairseq_seg.serve.memories import divide_memories
from fairseq_seg.serve.metrics import Metrics
from fairseq_seg.serve.refusal import Refusal
from fairseq_seg.serve.service import Service
from fairseq_seg.store.store import TranslationMemory


@pytest.fixture
def service() -> Service:
    langs = (("en", "fr"), ("fr", "en"), ("en", "pt_BR"))
    directions = [SimpleNamespace(source=a, target=b, name=f"{a}-{b}", memories={}) for a, b in langs]
    return Service(directions, None, Everybody([]), Metrics(), queue=10, timeout=1)


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        ("en", "fr", "en-fr"),
        ("eng", "pt", "en-pt_BR"),
        ("en-GB", "pt-br", "en-pt_BR"),
        ("FR", "en_US", "fr-en"),
        (None, "en", "fr-en"),
        ("fr", None, "fr-en"),
    ],
)
def test_languages_lead_to_their_model(service, source, target, name):
    assert service.direction(source, target).name == name


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("de", "fr", "de is not supported"),
        ("en", "de", "de is not supported"),
        ("fr", "pt", r"fr \(pt\) is not supported: this server translates en-fr, fr-en, en-pt_BR"),
        ("en", None, "name source and target"),
        (None, None, "name source and target"),
    ],
)
def test_other_languages_are_refused(service, source, target, message):
    with pytest.raises(Refusal, match=message) as refused:
        service.direction(source, target)
    assert refused.value.status == 400


def test_languages_are_listed_once(service):
    assert service.languages == ["en", "fr", "pt_BR"]
    assert service.targets("en") == ["fr", "pt_BR"]


def folder_for(path: Path, source: str, target: str) -> ModelFolder:
    """Return a model folder of words, without its checkpoint."""
    path.mkdir()
    for lang in (source, target):
        (path / f"dict.{lang}.txt").write_text("word 1\n")
    return ModelFolder(path, source, target)


def test_each_model_gets_the_memories_of_its_languages(tmp_path):
    folders = [folder_for(tmp_path / "a", "en", "fr"), folder_for(tmp_path / "b", "fr", "en")]
    paths = {}
    for source, target in (("en", "fr"), ("fr", "en")):
        paths[source] = tmp_path / f"{source}.mem"
        TranslationMemory.create(paths[source], source, target, tmp_path / "a").close()
    names = f"{paths['fr']}:0.1,train,{paths['en']}"
    assert divide_memories(names, folders) == [f"train,{paths['en']}", f"{paths['fr']}:0.1,train"]
    assert divide_memories(str(tmp_path / "new.mem"), folders[:1]) == [str(tmp_path / "new.mem")]
    with TranslationMemory(tmp_path / "new.mem") as memory:
        assert (memory.source_lang, memory.target_lang, len(memory)) == ("en", "fr", 0)
    with pytest.raises(SegError, match="could be for several models"):
        divide_memories(str(tmp_path / "other.mem"), folders)
    with pytest.raises(SegError, match="cannot be made"):
        divide_memories("/proc/none/new.mem", folders[:1])


def test_translated_files_are_kept_for_some_minutes():
    now = [0.0]
    results = Results(lambda: now[0])
    tokens = [results.put(str(number), b"x") for number in range(MOST_RESULTS + 1)]
    assert results.get(tokens[-1]) == (str(MOST_RESULTS), b"x") and len(set(tokens)) == len(tokens)
    with pytest.raises(Refusal):
        results.get(tokens[0])
    now[0] += RESULT_SECONDS + 1
    with pytest.raises(Refusal, match="kept for 10 minutes"):
        results.get(tokens[-1])


@pytest.mark.parametrize(
    ("goes", "status", "message"), [(False, 503, "took more than 0.2 seconds"), (True, 400, "gone")]
)
def test_nobody_waits_for_ever_and_nothing_is_done_for_nobody(goes, status, message):
    ended = []

    async def endless():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    async def receive():
        if not goes:
            await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def main():
        service = Service([], None, Everybody([]), Metrics(), queue=10, timeout=0.2)
        with pytest.raises(Refusal, match=message) as refused:
            await service._in_time(Request({"type": "http"}, receive), endless())
        await asyncio.sleep(0)
        return refused.value

    refusal = asyncio.run(main())
    assert (refusal.status, ended) == (status, [True])
    assert refusal.retry_after == (None if goes else 2)
