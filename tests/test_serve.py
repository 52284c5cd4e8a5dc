"""seg-serve as a real process, asked by real clients in their protocols."""

import json
import re
import socket
import subprocess
import sys
import threading
import time
from base64 import b64encode
from itertools import product
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from deep_translator import LibreTranslator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from libretranslatepy import LibreTranslateAPI

from fairseq_seg import Translator
from fairseq_seg.store.store import TranslationMemory
from tests.corpus import LEXICON, SOURCE, TARGET
from tests.memories import pairs
from tests.served import Server, served_corpus
from tests.stock import ROOT

FORM = "application/x-www-form-urlencoded"
SENTENCES = [pair.source for pair in served_corpus().test]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memories") / "own.mem"


@pytest.fixture(scope="module")
def server(served_model: Path, memory: Path):
    terms = memory.with_name("terms.tsv")
    terms.write_text("Name11\tSecret11\n")
    with Server(served_model, "--memory", f"{memory},train", "--queue", 50, f"--terms={terms}") as server:
        yield server
        assert server.stop() == 0


@pytest.fixture(scope="module")
def expected(server, served_model: Path) -> list[str]:
    """What `Translator` makes of the sentences."""
    with Translator(served_model, beam=2, max_len_a=0, max_len_b=20, cpu=True) as translator:
        return [translation.text for translation in translator.translate(SENTENCES)]


def words() -> str:
    """Return a sentence that no memory has, in words that the model knows."""
    return "the {} {} of Name1".format(*next(UNUSED))


UNUSED = product(LEXICON["ADJ"], LEXICON["NOUN"])


def suggest(server: Server, source: str, target: str) -> None:
    assert server.post("suggest", {"q": source, "s": target, "source": "en", "target": "fr"}) == {"success": True}


# LibreTranslate


def test_the_four_encodings_of_clients(server, expected):
    fields = {"q": SENTENCES[0], "source": "en", "target": "fr"}
    answer = {"translatedText": expected[0]}
    assert server.post("translate", fields) == answer
    assert server.post("translate", urlencode(fields).encode(), **{"Content-Type": FORM}) == answer
    assert server.post(f"translate?{urlencode(fields | {'api_key': 'any'})}", b"") == answer
    assert server.get(f"translate?{urlencode(fields)}") == answer
    assert server.post("translate", fields | {"q": SENTENCES[:15]}) == {"translatedText": expected[:15]}


def test_libretranslatepy(server, expected):
    client = LibreTranslateAPI(server.url)
    assert client.translate(SENTENCES[1], "en", "fr") == expected[1]
    assert {"code": "en", "name": "English", "targets": ["fr", "en"]} in client.languages()
    assert client.detect(SENTENCES[1])[0]["language"] == "en"
    assert client.detect(expected[1])[0]["language"] == "fr"


def test_deep_translator(server, expected):
    client = LibreTranslator(source="en", target="fr", api_key="none", custom_url=server.url)
    assert client.translate(SENTENCES[2]) == expected[2]
    assert client.translate_batch(SENTENCES[:2]) == expected[:2]


def test_a_language_may_be_left_to_the_server(server, expected):
    answer = server.post("translate", {"q": SENTENCES[:2], "source": "auto", "target": "fr", "alternatives": 1})
    assert answer["translatedText"] == expected[:2] and answer["alternatives"] == [[], []]
    assert [found["language"] for found in answer["detectedLanguage"]] == ["en", "en"]


def test_lines_and_markup_stay(server, expected):
    one, two = SENTENCES[0], SENTENCES[3]
    asked = {"q": f"  {one}\n\n- \n{two}\n", "source": "en", "target": "fr"}
    lines = server.post("translate", asked)["translatedText"].split("\n")
    assert lines[0] == f"  {expected[0]}" and lines[1] == "" and lines[3:] == [expected[3], ""]
    asked = {"q": f"<p>{one}</p><script>{one}</script>", "source": "en", "target": "fr", "format": "html"}
    assert server.post("translate", asked)["translatedText"] == f"<p>{expected[0]}</p><script>{one}</script>"
    assert server.post("translate", {"q": ["", " \n"], "source": "en", "target": "fr"}) == {
        "translatedText": ["", " \n"]
    }


def test_a_suggestion_counts_from_the_next_sentence_on(server):
    sentence = words()
    suggest(server, sentence, "verbatim {0} !")
    assert server.translate(sentence) == "verbatim {0} !"
    found = server.post("v1/translate", {"texts": [f"{sentence} shall"]})["translations"][0]["pairs"]
    assert (found[0]["memory"], found[0]["target"]) == ("own.mem", "verbatim {0} !")


def test_what_frontends_ask(server):
    assert server.get("health") == {"status": "ok"}
    assert server.get("spec")["info"]["title"] == "LibreTranslate"
    settings = server.get("frontend/settings")
    assert settings["suggestions"] and not settings["keyRequired"]
    assert settings["language"]["target"] == {"code": "fr", "name": "French"}


def test_weblates_check_of_its_settings_passes(server):
    """It translates "test" from English to German, whatever the server can do."""
    answer = server.post("translate", {"q": ["test"], "source": "en", "target": "de"})
    assert answer == {"translatedText": ["test"]}
    answer = server.get("translate?" + urlencode({"q": "test", "langpair": "eng|deu", "markUnknown": "no"}))
    assert answer["responseData"] == {"translatedText": "test"}
    assert server.get("tmserver/en/de/unit/test") == []
    status, answer, _ = server.request("POST", "translate", {"q": "testing", "source": "en", "target": "de"})
    assert (status, answer) == (400, {"error": "de is not supported"})


PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
PO += 'msgid "{}"\nmsgstr "{}"\n\nmsgid "a"\nmsgstr "b"\n'


def send_file(server: Server, name: str, content: str, **fields: str) -> tuple[int, dict, dict]:
    """Send a file as a browser's form does."""
    parts = [f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()]
    parts.append(f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n{content}\r\n--x--\r\n')
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    return server.request("POST", "translate_file", "".join(parts).encode(), headers)


def test_a_file_is_translated(server, expected):
    languages = {"source": "en", "target": "fr"}
    status, answer, _ = send_file(server, "a é.po", PO.format(SENTENCES[0], ""), **languages)
    assert status == 200 and answer["translatedFileUrl"].startswith(server.url)
    status, content, headers = server.request("GET", answer["translatedFileUrl"].removeprefix(server.url))
    translated = PO.format(SENTENCES[0], expected[0])
    lines = [line for line in content.splitlines(keepends=True) if not line.startswith("#")]
    assert "#, fuzzy" in content and "".join(lines) == translated  # a person has to look at it
    assert headers["content-disposition"].endswith("a%20%C3%A9.po")
    for name, content, fields, message in (
        ("a.docx", "x", languages, "does not tell its format"),
        ("a.po", 'msgid "', languages, "a.po"),
        ("a.xlf", "<po/>", languages, "a.xlf"),
        ("a.po", PO, {"source": "en"}, "missing target"),
    ):
        status, answer, _ = send_file(server, name, content, **fields)
        assert 400 <= status < 500 and message in answer["error"]
    assert server.request("GET", "download_file/none")[0] == 404
    assert server.request("POST", "translate_file", b"x", {"Content-Type": "multipart/form-data"})[0] == 400


XLIFF = """<xliff version="1.2"><file source-language="en" target-language="fr" datatype="x" original="x"><body>
<trans-unit id="1"><source>{}</source></trans-unit></body></file></xliff>
"""


def test_inline_codes_of_a_file_come_back(server, expected):
    before, after = SENTENCES[0].split(" ", 1)
    coded = XLIFF.format(f'{before} <g id="1">{after}</g><x id="2"/>')
    status, answer, _ = send_file(server, "a.xlf", coded, source="en", target="fr")
    assert status == 200
    content = server.get(answer["translatedFileUrl"].removeprefix(server.url))
    target = re.search("<target[^>]*>(.*)</target>", content)[1]
    assert re.sub("<[^>]*>", "", target) == expected[0]
    assert target.count('<g id="1">') == target.count("</g>") == target.count('<x id="2"/>') == 1
    binary = {"Content-Type": "application/octet-stream"}
    [segment] = server.post("v1/files?name=a.xlf", coded.encode(), **binary)["segments"]
    assert segment["codes"]
    asked = {"texts": [segment["source"]], "codes": True}
    [translation] = server.post("v1/translate", asked)["translations"]
    assert sorted(re.findall("<[^>]*>", translation["text"])) == sorted(re.findall("<[^>]*>", segment["source"]))
    pair = {"source": segment["source"], "target": translation["text"], "codes": True}
    new = server.post("v1/memories/own.mem/pairs", pair)
    stored = server.get(f"v1/memories/own.mem/pairs/{new['id']}")
    assert (stored["source"], stored["target"]) == (SENTENCES[0], expected[0])
    assert server.request("DELETE", f"v1/memories/own.mem/pairs/{new['id']}")[0] == 200


def test_concordance_and_files(server):
    sentence = words()
    suggest(server, sentence, "Secret7 accordé")
    [found] = server.post("v1/concordance", {"query": "accorde", "side": "target"})["pairs"]
    assert (found["source"], found["memory"]) == (sentence, "own.mem")
    assert server.request("POST", "v1/concordance", {"query": "?"})[0] == 400
    content = PO.format("c", "").encode()
    binary = {"Content-Type": "application/octet-stream"}
    opened = server.post("v1/files?name=a.po", content, **binary)
    assert [segment["state"] for segment in opened["segments"]] == ["new", "done"]
    asked = {"name": "a.po", "content": b64encode(content).decode(), "edits": [{"segment": 0, "text": "d"}]}
    assert server.request("POST", "v1/files/write", asked)[1] == PO.format("c", "d")
    asked["edits"] = [{"segment": 2, "text": "d"}]
    assert server.request("POST", "v1/files/write", asked)[0] == 400
    assert server.request("POST", "v1/files?name=a.po&name=b.po", content, binary)[0] == 400


# Apertium and tmserver


def test_apertium(server, expected):
    pairs = [{"sourceLanguage": "en", "targetLanguage": "fr"}]
    assert server.get("listPairs") == {"responseData": pairs, "responseDetails": None, "responseStatus": 200}
    for langpair in ("en|fr", "eng|fra", "en_GB|fr"):
        asked = urlencode({"q": SENTENCES[4], "langpair": langpair, "markUnknown": "no"})
        answer = {"responseData": {"translatedText": expected[4]}, "responseDetails": None, "responseStatus": 200}
        assert server.get(f"translate?{asked}") == answer
        assert server.post("translate", asked.encode(), **{"Content-Type": FORM}) == answer
    for langpair in ("en|xx", "en", "", "|"):
        status, answer, _ = server.request("GET", f"translate?q=a&langpair={quote(langpair)}")
        assert (status, answer["status"], answer["code"], answer["message"]) == (400, "error", 400, "Bad Request")
        assert answer["explanation"]


def test_tmserver(server):
    assert server.get("tmserver/languages/") == {"sourceLanguages": ["en"], "targetLanguages": ["fr"]}
    sentence = f"{words()} / what? 100%"
    path = f"tmserver/en/fr/unit/{quote(sentence, safe='')}"
    status, _, _ = server.request("PUT", path, {"source": sentence, "target": "cible / quoi ? 100 %"})
    assert status == 201
    best, *others = server.get(path)
    assert (best["source"], best["target"], best["quality"]) == (sentence, "cible / quoi ? 100 %", 100)
    assert all(30 <= match["quality"] < 100 for match in others)
    assert [match["quality"] for match in others] == sorted((m["quality"] for m in others), reverse=True)
    assert len(server.get(f"{path}?max_candidates=1&min_similarity=100")) == 1
    units = [{"source": words(), "target": f"Secret{number}"} for number in (1, 2)]
    units.append({"source": "c", "target": ""})
    assert server.request("POST", "tmserver/en/fr/store/file.po", units)[0] == 201
    assert server.get(f"tmserver/en/fr/unit/{quote(units[1]['source'])}")[0]["target"] == "Secret2"
    assert server.request("POST", "tmserver/en/fr/unit/x", {"source": 1, "target": "b"})[0] == 400


# Our own API


def test_where_words_came_from(server, expected):
    [found] = server.post("v1/translate", {"texts": [SENTENCES[5]], "provenance": True})["translations"]
    assert found["text"] == expected[5] == " ".join(word["text"] for word in found["words"])
    copied = [word for word in found["words"] if word["pair"] is not None]
    assert copied and all(
        found["pairs"][word["pair"]]["target"].split()[word["position"]] == word["text"] for word in copied
    )


def test_a_pair_is_added_changed_and_deleted(server, memory):
    sentence = words()
    new = server.post("v1/memories/own.mem/pairs", {"source": sentence, "target": "Secret1", "origin": "desk"})
    path = f"v1/memories/own.mem/pairs/{new['id']}"
    assert server.get(path)["origin"] == "desk"
    assert server.request("PATCH", path, {"target": "Secret2"})[0] == 200
    assert server.translate(sentence) == "Secret2"
    assert server.post("v1/search", {"text": sentence})["pairs"][0]["target"] == "Secret2"
    assert server.request("DELETE", path)[0] == 200
    assert [
        server.request(method, path, {} if method == "PATCH" else None)[0] for method in ("GET", "PATCH", "DELETE")
    ] == [404] * 3
    assert server.translate(sentence) != "Secret2"
    found = {entry["name"]: entry for entry in server.get("v1/server")["memories"]}
    with TranslationMemory(memory, read_only=True) as opened:
        assert found["own.mem"]["pairs"] == len(opened)
    assert server.post("v1/memories/own.mem/pairs", {"source": sentence, "target": "x"})["id"] != new["id"]


def test_bands_and_checks(server):
    sentence = words()
    suggest(server, sentence, "x")
    analysis = server.post("v1/analyse", {"texts": [sentence, "zzz"]})
    assert [match["band"] for match in analysis["matches"]] == ["100 %", "no match"]
    assert (analysis["texts"]["100 %"], analysis["words"]["100 %"]) == (1, len(sentence.split()))
    found = server.post("v1/check", {"text": "Page 3 of {0}", "translation": "Page 4"})["findings"]
    assert {"wrong number", "lost placeholder"} <= {finding["kind"] for finding in found}
    for translation, doubts in (("de Secret11", []), ("de Secret1", ["Name11: Secret11"])):
        found = server.post("v1/check", {"text": "of Name11", "translation": translation})["findings"]
        assert [finding["detail"] for finding in found if finding["kind"] == "term"] == doubts


def test_the_document_says_what_the_server_does(server):
    document = server.get("v1/openapi.json")
    assert document["openapi"].startswith("3.1")
    for path, methods in document["paths"].items():
        for method, item in methods.items():
            status, answer, _ = server.request(
                method.upper(), path.format(memory="none", id=1), {} if "requestBody" in item else None
            )
            assert str(status) in item["responses"] and status < 500
            reference = item["responses"][str(status)]["content"]["application/json"]["schema"]["$ref"]
            schema = document["components"]["schemas"][reference.rpartition("/")[2]]
            assert set(schema["required"]) <= set(answer) <= set(schema["properties"])
    page = server.get("docs")
    assert "/v1/translate" in page and "://" not in page.replace("xmlns", "")


# Values of every type, and names that the API knows, so that many requests get past its first checks.
TEXTS = st.text(max_size=20) | st.sampled_from(
    ["en", "fr", "the Name1", "keep", "both", "own.mem", "a.po", "\x00", "%"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
FIELDS = "texts text translation source target provenance codes count query side origin conflict name content edits q s"
BODIES = st.dictionaries(st.sampled_from(FIELDS.split()), VALUES | st.lists(TEXTS, max_size=3), max_size=6) | VALUES
PATHS = ["translate", "search", "concordance", "analyse", "check", "files", "files/write", "memories/own.mem/pairs"]
OTHERS = ["translate", "suggest", "detect", "tmserver/en/fr/unit/x", "tmserver/en/fr/store/x", "translate_file"]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from([f"v1/{path}" for path in PATHS] + OTHERS), body=BODIES)
def test_no_request_is_an_error_of_the_server(server, path, body):
    status, answer, _ = server.request("POST", path, body)
    assert status < 500 and (status < 400 or isinstance(answer["error"], str)), (status, answer)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    parts=st.lists(TEXTS | st.sampled_from(["v1", "memories", "own.mem", "pairs", "1", "tmserver", "unit"]), max_size=6)
)
def test_nor_is_any_path(server, parts):
    for method in ("GET", "DELETE"):
        status, _, _ = server.request(method, "/".join(quote(part, safe="") for part in parts))
        assert status < 500


# What goes wrong


@pytest.mark.parametrize(
    ("status", "message", "fields"),
    [
        (400, "missing q", {"source": "en", "target": "fr"}),
        (400, "missing target", {"q": "a", "source": "en"}),
        (400, "xx is not supported", {"q": "a", "source": "xx", "target": "fr"}),
        (400, "must be a text", {"q": "a", "source": 3, "target": "fr"}),
        (400, "must be a text or a list", {"q": [1], "source": "en", "target": "fr"}),
        (400, "pdf format is not supported", {"q": "a", "source": "en", "target": "fr", "format": "pdf"}),
        (413, "10,000 texts are too many: send at most 50", {"q": ["a"] * 10_000, "source": "en", "target": "fr"}),
        (413, "exceeds text limit", {"q": "a" * 100_001, "source": "en", "target": "fr"}),
    ],
)
def test_bad_input_is_one_sentence(server, status, message, fields):
    found, answer, _ = server.request("POST", "translate", fields)
    assert found == status and message in answer["error"] and "\n" not in answer["error"]


def test_a_body_of_50_megabytes_is_refused_and_the_server_goes_on(server, expected):
    with socket.create_connection(("127.0.0.1", int(server.url.rstrip("/").rpartition(":")[2]))) as connection:
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 52428800\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413")
    assert server.translate(SENTENCES[0]) == expected[0]


def test_odd_texts_get_an_answer(server):
    for text in ("\x00\x07", "\ud83d", "<script>", "a" * 50_000, "% % %s", "\u202e", "😀" * 100):
        status, answer, _ = server.request("POST", "translate", {"q": text, "source": "en", "target": "fr"})
        assert status == 200 and isinstance(answer["translatedText"], str), text
    for source, target in (("", "a"), ("a", " "), ("a\x00", "b"), ("\ud800", "b")):
        asked = {"q": source, "s": target, "source": "en", "target": "fr"}
        status, answer, _ = server.request("POST", "suggest", asked)
        assert status == 400 and "cannot be added" in answer["error"]


def test_too_many_at_once_are_told_to_come_back(server, expected):
    answers = []

    def ask():
        fields = {"q": SENTENCES[:14] * 2, "source": "en", "target": "fr"}
        answers.append(server.request("POST", "translate", fields))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = [status for status, _, _ in answers]
    assert set(statuses) == {200, 503}
    for status, answer, headers in answers:
        if status == 503:
            assert headers["retry-after"] == "2" and "try again" in answer["error"]
        else:
            assert answer["translatedText"] == expected[:14] * 2
    assert server.translate(SENTENCES[0]) == expected[0]


def test_pages_of_other_sites_cannot_add(server, memory):
    with TranslationMemory(memory, read_only=True) as opened:
        before = pairs(opened)
        body = {"q": "evil", "s": "mal", "source": "en", "target": "fr"}
        form = urlencode(body).encode()
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}):
            assert server.request("POST", "suggest", form, headers | {"Content-Type": FORM})[0] in (403, 421)
            assert server.request("PUT", "tmserver/en/fr/unit/x", {"source": "evil", "target": "m"}, headers)[0] in (
                403,
                421,
            )
        assert pairs(opened) == before


def test_figures_and_log_hold_no_texts(server):
    secret = "confidential" + words().replace(" ", "")
    server.translate(secret)
    server.get(f"translate?{urlencode({'q': secret, 'source': 'en', 'target': 'fr', 'api_key': secret})}")
    server.get(f"tmserver/en/fr/unit/{secret}")
    figures = server.get("metrics")
    assert 'seg_requests_total{route="/translate",status="200"}' in figures
    assert 'seg_batch_texts_count{direction="en-fr"}' in figures and "seg_pairs_written_total" in figures
    assert secret not in figures + server.log.read_text()
    assert {"method", "route", "status", "ms", "client"} <= set(server.events("request")[-1])


def test_connections_that_say_nothing_keep_nobody_out(server, expected):
    address = "127.0.0.1", int(server.url.rstrip("/").rpartition(":")[2])
    idle = [socket.create_connection(address) for _ in range(200)]
    try:
        assert server.translate(SENTENCES[0]) == expected[0]
    finally:
        for connection in idle:
            connection.close()


# Processes


def test_two_servers_share_a_memory(server, served_model, memory):
    with Server(served_model, "--memory", f"{memory},train") as other:
        for writer, reader in ((server, other), (other, server)):
            sentence = words()
            suggest(writer, sentence, "partagé")
            assert reader.translate(sentence) == "partagé"
            assert reader.get(f"tmserver/en/fr/unit/{quote(sentence)}")[0]["target"] == "partagé"


def test_a_stop_finishes_what_has_begun(served_model, tmp_path):
    with Server(served_model, "--memory", tmp_path / "m") as server:
        answers = []

        def ask():
            fields = {"q": SENTENCES * 30, "source": "en", "target": "fr"}
            answers.append(server.request("POST", "translate", fields))

        thread = threading.Thread(target=ask)
        thread.start()
        while "seg_batch_texts_count{" not in server.get("metrics"):
            time.sleep(0.01)
        assert server.stop() == 0
        thread.join()
        [(status, answer, _)] = answers
        assert status == 200 and len(answer["translatedText"]) == 30 * len(SENTENCES)
        assert server.events("stopped")


def test_what_keeps_a_server_from_starting_is_one_sentence(served_model, server, tmp_path):
    port = server.url.rstrip("/").rpartition(":")[2]

    def message(*arguments: object) -> str:
        failed = Server(*arguments, wait=False)
        assert failed.wait_for_end() == 1
        return failed.log.read_text().strip()

    assert "cannot be used (Address already in use): choose another --port" in message(served_model, "--port", port)
    assert "does not exist" in message(tmp_path / "none")
    assert "another model translates en-fr, too" in message(served_model, served_model)
    for lang in (SOURCE, TARGET, "de"):
        (tmp_path / f"dict.{lang}.txt").write_text("word 1\n")
    TranslationMemory.create(tmp_path / "de.mem", SOURCE, "de", tmp_path).close()
    assert "which no model here translates" in message(served_model, "--memory", tmp_path / "de.mem")
    two = f"{tmp_path / 'a' / 'm'},{tmp_path / 'b' / 'm'}"
    assert "two memories are called m" in message(served_model, "--memory", two)
    assert "cannot be read" in message(served_model, "--keys", tmp_path / "none")


def test_the_benchmark_runs(served_model, tmp_path):
    (tmp_path / "text").write_text("\n".join(SENTENCES))
    script = ROOT / "examples" / "benchmark" / "serve.py"
    sizes = ["--clients=2", "--requests=1", "--rounds=1", "--connections=5", "--many=4", f"--json={tmp_path / 'json'}"]
    command = [sys.executable, script, served_model, tmp_path / "text", *sizes]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    found = json.loads((tmp_path / "json").read_text())
    assert found["connections"] == 5 and len(found["ratios"]) == 3 and len(found["megabytes"]) == 2
