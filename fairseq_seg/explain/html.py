"""Explanations as one self-contained HTML page, in the manner of the paper's example figure.

A text cannot inject code: every text is escaped, and the page's Content-Security-Policy admits only its own style sheet
and script, by their hashes. This is why shades are classes, g0 to g10, and not style attributes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairseq_seg.explain.records import Explanation, Token

LEVELS = 10
LEGEND = {
    "S": "source sentence",
    "RS": "source side of a retrieved pair",
    "RT": "its target side",
    "A": "our translation",
    "B": "baseline",
    "T": "reference",
}


def _shades(lightest: tuple[int, int, int], darkest: tuple[int, int, int]) -> str:
    """Return the background of each level, evenly spaced from one colour to the other."""
    rules = []
    for level in range(1, LEVELS + 1):
        part = level / LEVELS
        mixed = (round(a + (b - a) * part) for a, b in zip(lightest, darkest, strict=True))
        rules.append(f".g{level}{{background:#{''.join(f'{channel:02x}' for channel in mixed)}}}")
    return "".join(rules)


# On every shade the text keeps a contrast of more than 6:1 in either mode (WCAG AA asks for 4.5:1).
STYLE = f"""
:root {{ color-scheme: light dark; --text: #16202c; --page: #f6f7f9; --card: #fff; --quiet: #56616e; --line: #d9dee5;
  --mark: #9a3412; --accent: #1d4ed8 }}
* {{ box-sizing: border-box }}
html {{ scroll-padding: 6rem 0 }}
body {{ margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 5rem; background: var(--page); color: var(--text);
  font: 1rem/1.65 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: anywhere }}
h1 {{ font-size: 1.4rem; line-height: 1.3; margin: 0 0 .25rem }}
h2 {{ font-size: .85rem; font-weight: 600; margin: 0 0 .5rem; color: var(--quiet) }}
p {{ margin: .25rem 0 }}
abbr {{ text-decoration: none }}
details p {{ margin: .4rem 0 }}
.quiet, dt, .origin, .legend {{ color: var(--quiet) }}
.legend {{ display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .75rem 0 1.5rem; padding: 0;
  list-style: none; font-size: .85rem }}
.legend b, .legend .w {{ color: var(--text) }}
.ramp {{ display: inline-flex; vertical-align: middle; margin: 0 .4rem; border: 1px solid var(--line) }}
.ramp i {{ width: .9rem; height: .9rem }}
article {{ background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem 1.1rem;
  margin: 0 0 1.25rem }}
dl {{ display: grid; grid-template-columns: 3.2rem 1fr; gap: .35rem 0; margin: 0 }}
dt {{ font-weight: 600; font-size: .85rem; line-height: 1.95 }}
dd {{ margin: 0; min-width: 0 }}
.pair, .ours, .after {{ border-top: 1px solid var(--line); padding-top: .35rem }}
.origin {{ display: block; font-size: .8rem; line-height: 1.5 }}
.w {{ padding: .08em .13em; margin: 0 -.13em; border-radius: .2em; color: inherit; text-decoration: none;
  -webkit-box-decoration-break: clone; box-decoration-break: clone }}
a.w {{ text-decoration: underline; text-decoration-thickness: .09em; text-underline-offset: .2em }}
a.w sup {{ font-size: .62em; line-height: 0; padding-left: .08em }}
a.w:hover, a.w:focus-visible, a.w:target, a.w.on {{ outline: .14rem solid var(--mark) }}
{_shades((255, 255, 255), (128, 184, 255))}
details {{ margin-top: .75rem; font-size: .85rem }}
summary {{ cursor: pointer; color: var(--accent); width: fit-content }}
.scroll {{ overflow-x: auto }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
th, td {{ padding: .12rem .8rem .12rem 0; text-align: right; white-space: nowrap; font-weight: 400 }}
thead th {{ color: var(--quiet); border-bottom: 1px solid var(--line) }}
th:first-child, td:last-child, th:last-child {{ text-align: left }}
output {{ position: fixed; inset: auto 0 0; padding: .6rem 1rem; background: var(--text); color: var(--page);
  font-size: .9rem; text-align: center }}
output:empty {{ display: none }}
@media (max-width: 34rem) {{
  body {{ padding: 1rem .6rem 5rem }}
  article {{ padding: .8rem .75rem }}
  dl {{ grid-template-columns: 1fr; gap: 0 }}
  dt {{ line-height: 1.4; margin-top: .55rem }}
  dd.pair, dd.ours, dd.after {{ border-top: 0; padding-top: 0 }}
}}
@media (prefers-color-scheme: dark) {{
  :root {{ --text: #e6eaf0; --page: #12161c; --card: #1a2029; --quiet: #9aa6b5; --line: #323c49; --mark: #fbbf24;
    --accent: #8ab4ff }}
  {_shades((26, 32, 41), (32, 78, 148))}
}}
@media print {{
  :root {{ color-scheme: light; --text: #000; --page: #fff; --card: #fff; --quiet: #444; --line: #bbb }}
  {_shades((255, 255, 255), (128, 184, 255))}
  html {{ font-size: 10pt }}
  body {{ max-width: none; padding: 0 }}
  article {{ break-inside: avoid }}
  .w, .ramp i {{ print-color-adjust: exact; -webkit-print-color-adjust: exact }}
  details:not([open]), output {{ display: none }}
}}
"""

# Links lead from a word to its origin and back even without this script, which highlights both ends together.
SCRIPT = """
const bar = document.querySelector("output");
let lit = [];
function show(event) {
  const word = event.target.closest && event.target.closest(".w");
  for (const element of lit) element.classList.remove("on");
  lit = [];
  bar.textContent = word ? word.title : "";
  if (!word || !word.dataset.slot) return;
  const ends = [...word.closest("article").querySelectorAll("[data-slot]")];
  lit = ends.filter(end => end.dataset.slot === word.dataset.slot);
  for (const element of lit) element.classList.add("on");
}
for (const kind of ["pointerover", "focusin", "click"]) document.addEventListener(kind, show);
"""


def csp_hash(text: str) -> str:
    """Return the hash that admits a style or script in the page's policy."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


POLICY = (
    f"default-src 'none'; style-src {csp_hash(STYLE)}; script-src {csp_hash(SCRIPT)}; "
    "base-uri 'none'; form-action 'none'"
)


def _shade(gate: float) -> str:
    return f"g{round(gate * LEVELS)}"


def _figures(token: Token) -> str:
    copy = "" if token.p_copy is None else f", p(copy) {token.p_copy:.2f}"
    return f"gate {token.gate:.2f}, copied {token.copied:.2f}{copy}, p(generate) {token.p_gen:.2f}"


def _translation(explanation: Explanation, anchor: str) -> str:
    """Show the words of our translation, each shaded by its gate and linked to where it was copied from."""
    words = []
    for index, word in enumerate(explanation.words):
        slot, title, shade = word.copied_from, f"{word.text}: {_figures(word)}", _shade(word.gate)
        if slot is None:
            words.append(f'<span class="w {shade}" title="{escape(title)}">{escape(word.text)}</span>')
            continue
        pair = explanation.pairs[slot.pair]
        title += (
            f"; from pair {slot.pair + 1} ({pair.origin}), word {slot.position + 1}: {pair.target_words[slot.position]}"
        )
        place = f"{anchor}r{slot.pair + 1}w{slot.position}"
        words.append(
            f'<a class="w {shade}" id="{anchor}a{index}" href="#{place}" data-slot="{place}" title="{escape(title)}">'
            f"{escape(word.text)}<sup>{slot.pair + 1}</sup></a>"
        )
    return " ".join(words)


def _retrieved_target(explanation: Explanation, rank: int, anchor: str) -> str:
    """Show the words of a retrieved target; a copied word is shaded like its copies, and linked to them."""
    copies: dict[int, list[int]] = {}
    for index, word in enumerate(explanation.words):
        if word.copied_from is not None and word.copied_from.pair == rank:
            copies.setdefault(word.copied_from.position, []).append(index)
    words = []
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


def _table(explanation: Explanation) -> str:
    """Show the figures of every symbol."""
    rows = []
    for symbol in explanation.symbols:
        slot = symbol.slot
        place = "" if slot is None else f"pair {slot.pair + 1}, symbol {slot.position + 1}, weight {slot.weight:.2f}"
        numbers = (symbol.gate, symbol.copied, symbol.p_copy, symbol.p_gen, symbol.probability)
        cells = "".join(f"<td>{'' if number is None else f'{number:.3f}'}</td>" for number in numbers)
        rows.append(f"<tr><th scope=row><bdi>{escape(symbol.text)}</bdi></th>{cells}<td>{place}</td></tr>")
    heads = ("symbol", "gate", "copied", "p(copy)", "p(generate)", "probability", "most copied from")
    head = "".join(f"<th scope=col>{name}</th>" for name in heads)
    return (
        "<details><summary>Figures of every symbol</summary>"
        "<p class=quiet>copied = gate × p(copy); probability = copied + (1 − gate) × p(generate)</p>"
        "<div class=scroll tabindex=0><table>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def row(label: str, content: str, kind: str = "", number: int | None = None) -> str:
    """Show one labelled line of a sentence's figure."""
    name = label if number is None else f"{label}{number}"
    return (
        f'<dt class="{kind}"><abbr title="{LEGEND[label]}">{name}</abbr></dt><dd class="{kind}" dir=auto>{content}</dd>'
    )


def article(explanation: Explanation, number: int) -> str:
    """Show one sentence in the manner of the paper's figure."""
    anchor = f"s{number}"
    rows = [row("S", escape(explanation.source))]
    for rank, pair in enumerate(explanation.pairs):
        origin = f"<span class=origin>{escape(pair.origin)} · score {pair.score:.2f}</span>"
        shown = rank + 1 if len(explanation.pairs) > 1 else None
        rows.append(row("RS", origin + escape(pair.source), "pair", shown))
        rows.append(row("RT", _retrieved_target(explanation, rank, anchor), "", shown))
    rows.append(row("A", _translation(explanation, anchor), "ours"))
    if explanation.baseline is not None:
        system = f"<span class=origin>{escape(explanation.baseline.system)}</span>"
        rows.append(row("B", system + escape(explanation.baseline.translation), "after"))
    if explanation.reference is not None:
        rows.append(row("T", escape(explanation.reference), "after"))
    note = ""
    if explanation.exact:
        note = "An exact match: A is its target, verbatim. The figures show what the model would have computed for it."
    elif not explanation.pairs:
        note = "No pair was retrieved: every word is generated."
    elif explanation.fusion == "deep":
        note = "Deep fusion mixes states and copies nothing: the gate shows the weight of the memory's state."
    return (
        f"<article id={anchor}><h2>Sentence {number}</h2><dl>{''.join(rows)}</dl><p class=quiet>{note}</p>"
        f"{_table(explanation)}</article>"
    )


def render(explanations: Iterable[Explanation], title: str) -> str:
    """Return the page."""
    articles = [article(explanation, number) for number, explanation in enumerate(explanations, 1)]
    labels = "".join(f"<li><b>{label}</b> {meaning}</li>" for label, meaning in LEGEND.items())
    ramp = "".join(f"<i class=g{level}></i>" for level in range(LEVELS + 1))
    return f"""<!doctype html>
<html lang=en><head><meta charset=utf-8><meta http-equiv=Content-Security-Policy content="{POLICY}">
<meta name=viewport content="width=device-width, initial-scale=1"><title>{escape(title)}</title>
<style>{STYLE}</style></head><body>
<header><h1>{escape(title)}</h1>
<p class=quiet>Where each word came from. Point at, tap or follow an underlined word to see its other end.</p>
<ul class=legend>
<li>gate: generate 0<span class=ramp role=img aria-label="from no shade to blue">{ramp}</span>1 copy</li>
<li><a class="w g8" href="#s1">word<sup>1</sup></a> copied rather than generated, from pair 1</li>{labels}</ul></header>
<main>{"".join(articles)}</main><output aria-live=polite></output>
<script>{SCRIPT}</script></body></html>
"""
