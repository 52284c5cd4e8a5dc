"""What the key of a client opens, and that nothing of one client reaches another."""

from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_seg.serve.keys import hash_of
from fairseq_seg.store.store import TranslationMemory
from tests.corpus import SOURCE, TARGET
from tests.memories import pairs
from tests.served import Server

# Which memories each client reads and writes; the server searches in the order of MEMORIES.
MEMORIES = ("common.mem", "ann.mem", "bob.mem")
CLIENTS = {
    "ann": (["ann.mem", "common.mem", "train"], ["ann.mem"]),
    "bob": (["bob.mem", "common.mem"], ["bob.mem", "common.mem"]),
    "cat": (["common.mem"], []),
}
FRENCH = {"source": "en", "target": "fr"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def server(served_model: Path, folder: Path):
    tables = [
        f'[{name}]\nkey = "{hash_of(f"key of {name}")}"\nread = {read}\nwrite = {write}\n'
        for name, (read, write) in CLIENTS.items()
    ]
    (folder / "keys.toml").write_text("".join(tables))
    for name in MEMORIES:
        TranslationMemory.create(folder / name, SOURCE, TARGET, served_model).close()
    memories = ",".join([*(str(folder / name) for name in MEMORIES), "train"])
    with Server(served_model, "--memory", memories, "--keys", folder / "keys.toml") as server:
        yield server
        assert server.stop() == 0


def key(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer key of {name}"}


def test_a_key_may_come_in_each_protocols_way(server):
    asked = {"q": "the", "source": "en", "target": "fr"}
    for fields in (asked, asked | {"api_key": "wrong"}, asked | {"api_key": ""}):
        status, answer, _ = server.request("POST", "translate", fields)
        assert status == 403 and "API key" in answer["error"]
    assert server.post("translate", asked | {"api_key": "key of ann"})["translatedText"]
    assert server.request("POST", "translate?" + urlencode(asked | {"api_key": "key of ann"}))[0] == 200
    apertium = {"q": "the", "langpair": "en|fr"}
    status, answer, _ = server.request("GET", f"translate?{urlencode(apertium)}")
    assert (status, answer["status"], answer["message"]) == (403, "error", "Forbidden")
    assert server.get(f"translate?{urlencode(apertium | {'key': 'key of ann'})}")["responseStatus"] == 200
    assert server.request("GET", "tmserver/en/fr/unit/the")[0] == 403
    basic = {"Authorization": "Basic YW5uOmtleSBvZiBhbm4="}  # ann:key of ann
    assert isinstance(server.get("tmserver/en/fr/unit/the", **basic), list)
    assert server.get("v1/server", **{"X-API-Key": "key of cat"})["memories"][0]["name"] == "common.mem"
    assert server.request("POST", "v1/translate", {"texts": ["the"]})[0] == 403
    assert server.request("GET", "v1/server", headers={"Authorization": "Basic *"})[0] == 400
    assert server.get("frontend/settings")["keyRequired"] is True
    assert server.get("health") == {"status": "ok"}


def test_a_suggestion_goes_to_the_first_memory_that_the_client_may_write(server, folder):
    for name, memory in (("ann", "ann.mem"), ("bob", "common.mem")):
        fields = {"q": f"{name} the", "s": f"{name} le", **FRENCH, "api_key": f"key of {name}"}
        assert server.post("suggest", fields) == {"success": True}
        with TranslationMemory(folder / memory, read_only=True) as opened:
            assert (f"{name} the", f"{name} le") in pairs(opened)
    fields = {"q": "a", "s": "b", **FRENCH, "api_key": "key of cat"}
    status, answer, _ = server.request("POST", "suggest", fields)
    assert (status, answer) == (403, {"error": "You may not add pairs to a memory for en-fr."})


def test_a_memory_that_a_client_may_not_use_does_not_exist_for_it(server):
    new = server.post("v1/memories/bob.mem/pairs", {"source": "bob own", "target": "x"}, **key("bob"))
    path = f"v1/memories/bob.mem/pairs/{new['id']}"
    for name in ("ann", "cat"):
        for method, body in (("GET", None), ("PATCH", {"target": "y"}), ("DELETE", None)):
            status, answer, _ = server.request(method, path, body, key(name))
            assert (status, answer) == (404, {"error": "There is no memory called bob.mem."})
        assert server.request("POST", "v1/memories/bob.mem/pairs", {"source": "a", "target": "b"}, key(name))[0] == 404
        assert {m["name"] for m in server.get("v1/server", **key(name))["memories"]} == {
            memory for memory in MEMORIES if memory in sum(CLIENTS[name], [])
        }
    assert server.get(path, **key("bob"))["target"] == "x"
    status, answer, _ = server.request(
        "POST", "v1/memories/common.mem/pairs", {"source": "a", "target": "b"}, key("cat")
    )
    assert (status, answer) == (403, {"error": "You may not write common.mem."})


def test_a_key_that_is_taken_away_stops_working_at_once(server, folder):
    text = (folder / "keys.toml").read_text()
    try:
        (folder / "keys.toml").write_text(text.replace(hash_of("key of cat"), hash_of("another")))
        assert server.request("GET", "v1/server", headers=key("cat"))[0] == 403
        assert server.request("GET", "v1/server", headers=key("ann"))[0] == 200
    finally:
        (folder / "keys.toml").write_text(text)


# What is asked is always the same few sentences, so that all clients' pairs compete for each of them.
WORDS = st.sampled_from(["the Name1", "the Name1 of", "the Name1 of Name2", "before the Name1"])
ACTIONS = st.tuples(
    st.sampled_from(["add", "translate", "search", "tm", "apertium"]), st.sampled_from(list(CLIENTS)), WORDS
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, min_size=4, max_size=12))
def test_pairs_of_one_client_never_reach_another(server, actions):
    """Each pair says in its target whose memory it is in; that must be one that the asking client reads."""
    for action, name, words in actions:
        read, write = CLIENTS[name]
        foreign = [memory.replace(".", "") for memory in MEMORIES if memory not in read]
        if action == "add":
            for memory in write:
                pair = {"source": words, "target": f"{memory.replace('.', '')} {words}"}
                server.post(f"v1/memories/{memory}/pairs", pair, **key(name))
            continue
        if action == "translate":
            asked = {"texts": [words, f"{words} Name3"], "provenance": True}
            answer = server.post("v1/translate", asked, **key(name))
            for found in answer["translations"]:
                assert {pair["memory"] for pair in found["pairs"]} <= set(read)
        elif action == "search":
            answer = server.post("v1/search", {"text": words, "count": 50}, **key(name))
            assert {pair["memory"] for pair in answer["pairs"]} <= set(read)
        elif action == "tm":
            answer = server.get(f"tmserver/en/fr/unit/{quote(words)}?max_candidates=50", **key(name))
        else:
            asked = urlencode({"q": words, "langpair": "en|fr", "key": f"key of {name}"})
            answer = server.get(f"translate?{asked}")
        assert not any(memory in str(answer) for memory in foreign), (name, answer)
