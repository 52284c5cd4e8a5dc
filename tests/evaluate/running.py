"""Files as systems leave them, seg-evaluate's command line, and its page, for the tests of seg-evaluate."""

import random
from html.parser import HTMLParser
from pathlib import Path

from fairseq_seg.cli import evaluate


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def generated(sources: list[str], translations: list[str]) -> list[str]:
    """Lines as fairseq-generate prints them: in an order of its own, the two best of each sentence."""
    lines = []
    for index in random.Random(2).sample(range(len(sources)), len(sources)):
        lines += [f"S-{index}\t{sources[index]}", f"T-{index}\tnot looked at"]
        for score, text in ((-0.1, translations[index]), (-0.2, "second best")):
            lines += [f"H-{index}\t{score}\t{text} tokenized", f"D-{index}\t{score}\t{text}", f"P-{index}\t-0.1"]
    return lines


def run(attached: Path, *arguments: object) -> None:
    references = ["--references", attached.with_name("test.fr")]
    evaluate.main([str(argument) for argument in (attached, *references, *arguments)])


class Page(HTMLParser):
    """What a test wants to know of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.texts: dict[str, list[str]] = {}
        self.open = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.open = tag
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        self.open = ""

    def handle_data(self, data):
        self.texts.setdefault(self.open, []).append(data)

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]
