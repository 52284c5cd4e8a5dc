"""A page for reviewers: each translated segment with the words that were copied, its best pair and what to check."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from html import escape
from pathlib import Path

from fairseq_seg.documents.segment import Document, Segment
from fairseq_seg.explain import page
from fairseq_seg.explain.html import translation_words
from fairseq_seg.explain.records import Explanation
from fairseq_seg.files import write_whole
from fairseq_seg.localize.analysis import BANDS, band_of
from fairseq_seg.localize.journal import Result, kind_of

STYLE = """
form { display: flex; flex-wrap: wrap; gap: .5rem 1rem; margin: 1rem 0; align-items: center }
select, input { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line);
  border-radius: .3rem; padding: .15rem .3rem }
.card[hidden] { display: none }
h2 a { color: inherit }
.flag { color: var(--mark); font-weight: 600 }
ins { text-decoration: underline; text-decoration-thickness: .1em; font-weight: 600 }
del { color: var(--quiet) }
"""
SCRIPT = """
const form = document.querySelector("form"), main = document.querySelector("main");
const cards = [...main.querySelectorAll("article")], shown = document.getElementById("shown");
function select() {
  const band = form.band.value, flag = form.flag.value, file = form.file.value, text = form.text.value.toLowerCase();
  let count = 0;
  for (const card of cards) {
    const data = card.dataset;
    card.hidden = !((!band || data.band === band) && (!file || data.file === file) &&
      (!flag || (flag === "any" ? data.flags : data.flags.split("|").includes(flag))) &&
      (!text || card.textContent.toLowerCase().includes(text)));
    count += !card.hidden;
  }
  shown.textContent = count + " of " + cards.length + " segments";
}
function sort() {
  const key = form.order.value;
  const value = card => key === "place" ? +card.dataset.place : +card.dataset[key];
  main.append(...cards.sort((a, b) => value(a) - value(b) || a.dataset.place - b.dataset.place));
}
form.addEventListener("input", select);
form.order.addEventListener("change", sort);
form.addEventListener("submit", event => event.preventDefault());
select();
"""


class ReviewPage:
    """Collects segments, and writes the page."""

    def __init__(self, path: Path):
        self._path = path
        self._cards: list[str] = []
        self._bands: Counter[str] = Counter()
        self._flags: Counter[str] = Counter()
        self._files: Counter[str] = Counter()

    def add(self, document: Document, segment: Segment, result: Result) -> None:
        """Add a segment that was translated."""
        score = 0 if result.pair is None or (edit := result.edit) is None else edit.percent or 0
        band, kinds = band_of(score), list(dict.fromkeys(map(kind_of, result.flags)))
        self._bands[band] += 1
        self._flags.update(kinds)
        self._files[document.name] += 1
        number = len(self._cards)
        data = {
            "place": number,
            "score": score,
            "doubt": -len(result.flags),
            "band": band,
            "flags": "|".join(kinds),
            "file": document.name,
        }
        marks = "".join(f' data-{name}="{escape(str(value))}"' for name, value in data.items())
        anchor = f"s{number}"
        place = escape(f"{document.name} · {segment.id} · line {segment.line}")
        head = f"<h2><a href=#{anchor}>{place}</a>{' · final' if result.final else ''}</h2>"
        self._cards.append(
            f"<article class=card id={anchor}{marks}>{head}<dl>{rows(segment, result, anchor)}</dl></article>"
        )

    def write(self) -> None:
        """Write the page, whole or not at all."""
        text = (
            "Words of a translation are shaded by how much of them was copied from the memory. What differs between a "
            "source and its best pair is <ins>underlined</ins> in the one and <del>struck out</del> in the other."
        )
        total = sum(self._bands.values())
        bands = {band: self._bands[band] for band in BANDS if self._bands[band]}
        form = (
            f"<form><label>Match {choice('band', bands)}</label>"
            f"<label>Check {choice('flag', {'any': total_flagged(self._cards), **self._flags})}</label>"
            f"<label>File {choice('file', self._files)}</label>"
            "<label>Sort by <select name=order><option value=place>place<option value=score>match, worst first"
            "<option value=doubt>most to check first</select></label>"
            "<label>Text <input name=text type=search></label>"
            f"<span class=quiet id=shown>{total:,} segments</span></form>"
        )
        header = f"<p class=quiet>{text} Shades: generated 0{page.RAMP}1 copied.</p>{form}"
        html = page.render("Translations to review", header, self._cards, STYLE, SCRIPT)
        with write_whole(self._path) as stream:
            stream.write(html.encode())


def total_flagged(cards: list[str]) -> int:
    """Count the cards with something to check."""
    return sum('data-flags=""' not in card for card in cards)


def choice(name: str, counts: dict[str, int] | Counter[str]) -> str:
    """Return a list to choose from."""
    options = "".join(f'<option value="{escape(key)}">{escape(key)} ({count:,})' for key, count in counts.items())
    return f"<select name={name}><option value=''>all{options}</select>"


def rows(segment: Segment, result: Result, anchor: str) -> str:
    """Return the lines of a segment."""
    pair = result.pair
    source = escape(segment.source) if pair is None else changed(pair.source, segment.source, "ins")
    lines = [("source", source)]
    if result.text is None:
        lines.append(("target", "<span class=quiet>left untranslated</span>"))
    elif result.explanation is not None:
        shown = Explanation.from_dict(result.explanation)
        words = translation_words(shown, anchor, linked=False)
        lines.append(("target", words if shown.words and not segment.codes else escape(result.text)))
    else:
        lines.append(("target", escape(result.text)))
    if pair is not None:
        note = f"<span class=note>{int(pair.score * 100 + 1e-4)} % · {escape(pair.origin)}</span>"
        lines += [("pair", note + changed(segment.source, pair.source, "del")), ("", escape(pair.target))]
    if segment.context:
        lines.append(("context", escape(segment.context)))
    if result.flags:
        lines.append(("check", f"<span class=flag>{escape(', '.join(result.flags))}</span>"))
    return "".join(f"<dt>{name}</dt><dd dir=auto>{content}</dd>" for name, content in lines)


def changed(before: str, after: str, mark: str) -> str:
    """Return a text in which the words that another lacks are marked."""
    old, new = (re.findall(r"\w+|\s+|[^\w\s]", text) for text in (before, after))
    parts = []
    for kind, _, _, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        text = escape("".join(new[start:end]))
        if text:
            parts.append(text if kind == "equal" else f"<{mark}>{text}</{mark}>")
    return "".join(parts)
