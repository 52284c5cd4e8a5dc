"""The workbench in a real browser: open a file, edit, confirm, see the next segment change, save it."""

from pathlib import Path

import pytest

from fairseq_seg.store.store import TranslationMemory
from tests.browser import Browser, needs_chromium, open_browser
from tests.memories import pairs
from tests.served import Server, served_corpus

pytestmark = needs_chromium

CONTROL, ALT, ENTER, DOWN, UP = "\ue009", "\ue00a", "\ue007", "\ue015", "\ue013"
EVIL = "<img src=x onerror=document.title='run'> of Name2"
FIRST, OTHER = (pair.source for pair in served_corpus().test[:2])
# The same but for a word.
NEAR = FIRST.replace("lostido", "Name3")
SOURCES = (FIRST, FIRST, OTHER, EVIL, NEAR)
HEAD = 'msgid ""\nmsgstr ""\n"Language: fr\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'


def po(*targets: str) -> str:
    """Return a file of SOURCES with some targets; contexts tell equal sources apart."""
    targets += ("",) * (len(SOURCES) - len(targets))
    texts = enumerate(zip(SOURCES, targets, strict=True))
    return HEAD + "\n".join(f'msgctxt "{n}"\nmsgid "{source}"\nmsgstr "{target}"\n' for n, (source, target) in texts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workbench")


@pytest.fixture(scope="module")
def server(served_model: Path, folder: Path):
    with Server(served_model, "--memory", f"{folder / 'own.mem'},train") as server:
        yield server


@pytest.fixture
def browser(server: Server, tmp_path: Path):
    with open_browser(tmp_path) as browser:
        browser.driver.get(server.url)
        browser.one("body[data-ready]")
        yield browser
        assert browser.errors() == []


@pytest.fixture(autouse=True)
def empty_memory(server: Server, folder: Path):
    yield
    with TranslationMemory(folder / "own.mem") as memory:
        memory.delete(*(entry.id for entry in memory.pairs()))


def stored(folder: Path) -> list[tuple[str, str]]:
    with TranslationMemory(folder / "own.mem", read_only=True) as memory:
        return pairs(memory)


def open_po(browser: Browser, tmp_path: Path, content: str | None = None) -> None:
    path = tmp_path / "messages.po"
    path.write_text(content or po(), encoding="utf-8")
    browser.one("#file").send_keys(str(path))
    translated(browser, 0)


def translated(browser: Browser, index: int) -> str:
    """Wait until a segment is open and translated, and return its text."""
    browser.one(f"#segment-{index}[aria-current][data-translated]")
    return browser.one(f"#segment-{index} textarea").get_property("value")


def write(browser: Browser, index: int, text: str) -> None:
    area = browser.one(f"#segment-{index} textarea")
    area.clear()
    area.send_keys(text)


def test_from_the_file_to_the_file(server, browser, folder, tmp_path):
    def suggested(text: str) -> str:
        return server.post("v1/translate", {"texts": [text]})["translations"][0]["text"]

    before = suggested(FIRST)
    open_po(browser, tmp_path)
    assert browser.all("#segment-0 .w.copied")
    mine = "mon {0} mot à moi"
    write(browser, 0, mine)
    browser.keys(CONTROL, ENTER)
    # The next segment, which has the same source, was translated with the new pair.
    assert translated(browser, 1) == suggested(FIRST) == mine != before
    assert stored(folder) == [(FIRST, mine)]
    assert "own.mem" in browser.text("#matches li") and browser.text("#segment-1 .band") == "100 %"
    browser.keys(CONTROL, ENTER)
    translated(browser, 2)
    assert browser.text("#count") == "2 of 5"
    browser.one("#segment-4 .number").click()
    translated(browser, 4)
    assert browser.text("#segment-4 ins") == "Name3" and browser.text("#matches del") == "lostido"
    assert mine in browser.text("#matches li") and browser.text("#segment-4 .band") == "88 %"
    browser.one("#download").click()
    assert browser.download("messages.po").decode() == po(mine, mine)


def test_a_reload_loses_nothing_that_was_confirmed(server, browser, folder, tmp_path):
    open_po(browser, tmp_path)
    for index in range(2):
        translated(browser, index)
        write(browser, index, f"mine {index}")
        browser.keys(CONTROL, ENTER)
    translated(browser, 2)
    browser.driver.refresh()
    assert translated(browser, 2)
    assert [element.text for element in browser.all(".segment.confirmed .target")] == ["mine 0", "mine 1"]
    browser.one("#download").click()
    assert browser.download("messages.po").decode() == po("mine 0", "mine 1")


def test_what_was_confirmed_without_the_server_is_sent_later(server, browser, folder, tmp_path):
    open_po(browser, tmp_path)
    browser.driver.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    write(browser, 0, "offline")
    browser.keys(CONTROL, ENTER)
    browser.one("#segment-0.confirmed")
    assert stored(folder) == []
    browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline | {"offline": False})
    browser.driver.refresh()
    browser.wait(lambda: stored(folder) == [(FIRST, "offline")], "the pair is sent")
    assert any("ERR_INTERNET_DISCONNECTED" in message for message in browser.errors())


def test_undo_takes_the_pair_back(server, browser, folder, tmp_path):
    open_po(browser, tmp_path)
    write(browser, 0, "wrong")
    browser.keys(CONTROL, ENTER)
    translated(browser, 1)
    browser.keys(ALT, UP)
    translated(browser, 0)
    write(browser, 0, "better")
    browser.keys(CONTROL, ENTER)
    browser.wait(lambda: stored(folder) == [(FIRST, "better")], "the pair is changed")
    translated(browser, 1)
    for left in ([(FIRST, "wrong")], []):
        browser.keys(ALT, "z")
        browser.wait(lambda left=left: stored(folder) == left, str(left))
    browser.wait(lambda: browser.text("#count") == "0 of 5", "nothing is confirmed")
    assert not browser.one("#undo").is_enabled()


def test_markup_in_texts_and_names_does_not_run(server, browser, folder, tmp_path):
    with TranslationMemory(folder / "own.mem") as memory:
        memory.add("x of Name2", EVIL, origin=EVIL)
    title = browser.driver.title
    path = tmp_path / "<img src=x onerror=document.title='run'>.po"
    path.write_text(po("", "", "", EVIL), encoding="utf-8")
    browser.one("#file").send_keys(str(path))
    translated(browser, 0)
    browser.one("#segment-3 .number").click()
    translated(browser, 3)
    assert (
        browser.text("#segment-3 .source") == EVIL and browser.one("#segment-3 textarea").get_property("value") == EVIL
    )
    browser.one("#query").send_keys("onerror", ENTER)
    assert EVIL in browser.text("#concordance li")
    assert "onerror" in browser.text("#name")
    assert not browser.all("img") and browser.driver.title == title


def test_checks_and_concordance_while_working(server, browser, folder, tmp_path):
    server.post("v1/memories/own.mem/pairs", {"source": "a wonderful thing", "target": "une merveille"})
    open_po(browser, tmp_path)
    write(browser, 0, "Secret1 %s http://example.org")
    browser.wait(lambda: "extra placeholder %s" in browser.text(".findings"), "a finding")
    browser.one("#segment-0 textarea").clear()
    browser.one("#segment-0 textarea").send_keys("wonderful")
    browser.run("const area = document.querySelector('#segment-0 textarea'); area.select();")
    browser.keys("\ue008")  # Shift, which ends a selection by keyboard
    browser.wait(lambda: "une merveille" in browser.text("#concordance"), "the concordance")


def test_by_keyboard_alone(server, browser, tmp_path):
    open_po(browser, tmp_path)
    assert browser.run("return document.activeElement.tagName") == "TEXTAREA"
    browser.keys(ALT, DOWN)
    translated(browser, 1)
    browser.keys(ALT, DOWN)
    translated(browser, 2)
    write(browser, 2, "")
    browser.keys(ALT, "1")
    target = server.post("v1/translate", {"texts": [OTHER]})["translations"][0]["pairs"][0]["target"]
    assert browser.one("#segment-2 textarea").get_property("value") == target
    browser.keys(ALT, UP)
    translated(browser, 1)


def test_pasted_text(server, browser, tmp_path):
    browser.one("#paste").click()
    browser.one("#pasted").send_keys(f"{FIRST}\n\n{OTHER}")
    browser.one("#paste-dialog button").click()
    text = translated(browser, 0)
    browser.keys(CONTROL, ENTER)
    translated(browser, 1)
    browser.one("#download").click()
    assert browser.download("pasted.txt").decode() == f"{text}\n\n{OTHER}\n"


UNNAMED = """
return [...document.querySelectorAll("button, input, select, textarea, progress, section, aside, dialog, article")]
  .filter((element) => !(element.getAttribute("aria-label") || element.getAttribute("aria-labelledby")
    || element.textContent.trim() && element.tagName === "BUTTON" || element.labels && element.labels.length
    || element.querySelector("h2")))
  .map((element) => element.outerHTML.slice(0, 200));
"""
CONTRAST = """
const number = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((value) => {
  const share = value / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
});
const light = (text) => number(text).reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
const behind = (element) => {
  for (; element; element = element.parentElement) {
    const color = getComputedStyle(element).backgroundColor;
    if (!/, 0\\)|transparent/.test(color)) return color;
  }
  return "rgb(255, 255, 255)";
};
const texts = "h1, h2, button, .button, p, a, dt, dd, .band, ins, .w, #count";
return Math.min(...[...document.querySelectorAll(texts)].map((element) => {
  const [one, two] = [light(getComputedStyle(element).color), light(behind(element))].sort((a, b) => b - a);
  return (one + 0.05) / (two + 0.05);
}));
"""


def test_it_fits_narrow_windows_and_both_modes(server, browser, tmp_path):
    open_po(browser, tmp_path)
    for mode in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": mode}]}
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        for width in (1300, 420):
            metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            assert browser.run("return document.documentElement.scrollWidth") <= width
        enabled = "for (const button of document.querySelectorAll(':disabled')) button.disabled = false;"
        browser.run(enabled)
        assert browser.run(CONTRAST) >= 4.5, mode
    assert browser.run(UNNAMED) == []
    assert browser.run("return document.documentElement.lang") == "en"


def test_the_page_of_the_api_loads_nothing_from_elsewhere(server, browser):
    browser.driver.get(server.url + "docs")
    assert "/v1/translate" in browser.text("main") and browser.run("return document.styleSheets.length") == 1


def test_files_that_cannot_be_opened(server, browser, tmp_path):
    for name, content, message in (
        ("a.po", 'msgid "a', "a.po"),
        ("a.docx", "x", "does not tell its format"),
        ("a.xlf", "<po/>", "a.xlf"),
    ):
        (tmp_path / name).write_text(content)
        browser.one("#file").send_keys(str(tmp_path / name))
        browser.wait(lambda message=message: message in browser.text("#message"), message)
    assert all("status of 4" in message for message in browser.errors())
