"""Explanations as one HTML page, in the manner of the paper's example figure."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from fairseq_seg.explain import page

if TYPE_CHECKING:
    from fairseq_seg.explain.records import Explanation, Token

ROWS = {
    "S": "source sentence",
    "RS": "source of a retrieved pair",
    "RT": "its target",
    "A": "our translation",
    "B": "baseline",
    "T": "reference",
}
SCORE = "<b>score</b> similarity of a pair's source to S, from 0 to 1 (the same sentence)"
MARKS = (
    f"<b>shade</b> the gate: generate 0{page.RAMP}1 copy",
    '<a class="w g8" href="#">word<sup>1</sup></a> copied rather than generated, from pair 1',
)


def legend(marks: Iterable[str]) -> str:
    """Explain the marks and rows of a sentence's figure."""
    return page.items("legend note", (*marks, SCORE, *(f"<b>{label}</b> {text}" for label, text in ROWS.items())))


def _shade(gate: float) -> str:
    return f"g{round(gate * page.LEVELS)}"


def _figures(token: Token) -> str:
    copy = "" if token.p_copy is None else f", p(copy) {token.p_copy:.2f}"
    return f"gate {token.gate:.2f}, copied {token.copied:.2f}{copy}, p(generate) {token.p_gen:.2f}"


def translation_words(explanation: Explanation, anchor: str, linked: bool = True) -> str:
    """Show the words of our translation, each shaded by its gate and linked to where it was copied from."""
    words = []
    for index, word in enumerate(explanation.words):
        slot, title, shade = word.copied_from, f"{word.text}: {_figures(word)}", _shade(word.gate)
        if slot is not None and not linked:
            title += f", from pair {slot.pair + 1} ({explanation.pairs[slot.pair].origin})"
        if slot is None or not linked:
            words.append(f'<span class="w {shade}" title="{escape(title)}">{escape(word.text)}</span>')
            continue
        pair, place = explanation.pairs[slot.pair], f"{anchor}r{slot.pair + 1}w{slot.position}"
        title += f", from pair {slot.pair + 1} ({pair.origin}), word {slot.position + 1}: "
        title += pair.target_words[slot.position]
        words.append(
            f'<a class="w {shade}" id="{anchor}a{index}" href="#{place}" data-slot="{place}" title="{escape(title)}">'
            f"{escape(word.text)}<sup>{slot.pair + 1}</sup></a>"
        )
    return " ".join(words)


def _retrieved_target(explanation: Explanation, rank: int, anchor: str) -> str:
    """Show the words of a retrieved target; a copied word is shaded like its copies, and linked to them."""
    words, copies = [], explanation.copies(rank)
    for position, text in enumerate(explanation.pairs[rank].target_words):
        if position not in copies:
            words.append(escape(text))
            continue
        place, uses = f"{anchor}r{rank + 1}w{position}", copies[position]
        gate = max(explanation.words[index].gate for index in uses)
        copied = (f"word {index + 1} of A, {_figures(explanation.words[index])}" for index in uses)
        title = f"{text}: copied to {'; '.join(copied)}"
        words.append(
            f'<a class="w {_shade(gate)}" id="{place}" href="#{anchor}a{uses[0]}" data-slot="{place}" '
            f'title="{escape(title)}">{escape(text)}</a>'
        )
    return " ".join(words)


def _symbols(explanation: Explanation) -> str:
    """Show the figures of every symbol."""
    rows = []
    for symbol in explanation.symbols:
        slot = symbol.slot
        place = "" if slot is None else f"pair {slot.pair + 1}, symbol {slot.position + 1}, weight {slot.weight:.2f}"
        numbers = (symbol.gate, symbol.copied, symbol.p_copy, symbol.p_gen, symbol.probability)
        cells = ("" if number is None else f"{number:.3f}" for number in numbers)
        rows.append(("", [f"<bdi>{escape(symbol.text)}</bdi>", *cells, place]))
    heads = ("symbol", "gate", "copied", "p(copy)", "p(generate)", "probability", "most copied from")
    return (
        f"<details><summary>Figures of every symbol</summary>{page.table(heads, rows)}"
        "<p class=note><b>copied</b> = gate × p(copy), <b>probability</b> = copied + (1 − gate) × p(generate). "
        "The last column is the place in the memory with the largest weight of those with this symbol.</p></details>"
    )


def _row(label: str, content: str, rule: bool = True, number: int | None = None) -> str:
    """Show one labelled line, with or without a rule above it."""
    kind = " class=rule" if rule else ""
    name = f'<abbr title="{ROWS[label]}">{label}{"" if number is None else number}</abbr>'
    return f"<dt{kind}>{name}</dt><dd{kind} dir=auto>{content}</dd>"


def article(explanation: Explanation, number: int) -> str:
    """Show one sentence; an explanation without words or symbols shows its texts alone."""
    anchor = f"s{number}"
    rows = [_row("S", escape(explanation.source), rule=False)]
    for rank, pair in enumerate(explanation.pairs):
        origin = f"<span class=note>{escape(pair.origin)} · score {pair.score:.2f}</span>"
        shown = rank + 1 if len(explanation.pairs) > 1 else None
        target = _retrieved_target(explanation, rank, anchor) or escape(pair.target)
        rows += [_row("RS", origin + escape(pair.source), number=shown), _row("RT", target, False, shown)]
    rows.append(_row("A", translation_words(explanation, anchor) or escape(explanation.translation)))
    if explanation.baseline is not None:
        system = f"<span class=note>{escape(explanation.baseline.system)}</span>"
        rows.append(_row("B", system + escape(explanation.baseline.translation)))
    if explanation.reference is not None:
        rows.append(_row("T", escape(explanation.reference)))
    figures = f"<p class=quiet>{explanation.note}</p>{_symbols(explanation)}" if explanation.symbols else ""
    return f"<article class=card id={anchor}><h2>Sentence {number}</h2><dl>{''.join(rows)}</dl>{figures}</article>"


def render(explanations: Iterable[Explanation], title: str) -> str:
    """Return the page."""
    text = "Where each word came from. Point at, tap or follow an underlined word to see its other end."
    articles = (article(explanation, number) for number, explanation in enumerate(explanations, 1))
    return page.render(title, f"<p class=quiet>{text}</p>{legend(MARKS)}", articles)
