"""One self-contained HTML page: the style and frame that seg-explain's and seg-evaluate's pages share.

A text cannot inject code: every text is escaped, and the page's Content-Security-Policy admits only its own style sheet
and script, by their hashes, and images within the page. This is why shades are classes (g0 to g10), not attributes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape

LEVELS = 10
# On every shade the text keeps a contrast of more than 6:1 in either mode (WCAG AA asks for 4.5:1).
STYLE = """
:root { color-scheme: light dark; --text: #16202c; --page: #f6f7f9; --card: #fff; --quiet: #56616e; --line: #d9dee5;
  --mark: #9a3412; --accent: #1d4ed8; --shade: 128 184 255 }
@media screen and (prefers-color-scheme: dark) { :root { --text: #e6eaf0; --page: #12161c; --card: #1a2029;
  --quiet: #9aa6b5; --line: #323c49; --mark: #fbbf24; --accent: #8ab4ff; --shade: 32 78 148 } }
* { box-sizing: border-box }
html { scroll-padding: 6rem 0 }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 5rem; background: var(--page); color: var(--text);
  font: 1rem/1.65 system-ui, "DejaVu Sans", sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.4rem; line-height: 1.3; margin: 0 0 .25rem }
h2 { font-size: .85rem; margin: 0 0 .5rem; color: var(--quiet) }
p { margin: .25rem 0 }
abbr { text-decoration: none }
dt, .quiet, .note { color: var(--quiet) }
.note { display: block; font-size: .85rem; line-height: 1.5; margin: .4rem 0 }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem 1.1rem;
  margin: 0 0 1.25rem; break-inside: avoid }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .75rem 0 1.5rem; padding: 0; list-style: none }
.note b, .legend .w { color: var(--text) }
.ramp { display: inline-flex; vertical-align: middle; margin: 0 .4rem; border: 1px solid var(--line);
  background: var(--card) }
.ramp i { width: .9rem; height: .9rem }
dl { display: grid; grid-template-columns: 3.2rem 1fr; gap: .35rem 0; margin: 0 }
dt { font-weight: 600; font-size: .85rem; line-height: 1.95 }
dd { margin: 0; min-width: 0 }
.rule { border-top: 1px solid var(--line); padding-top: .35rem }
.w { padding: .08em .13em; margin: 0 -.13em; border-radius: .2em; color: inherit; text-decoration: none;
  -webkit-box-decoration-break: clone; box-decoration-break: clone; print-color-adjust: exact }
a.w { text-decoration: underline .09em; text-underline-offset: .2em }
a.w sup { font-size: .62em; line-height: 0; padding-left: .08em }
a.w:hover, a.w:focus-visible, a.w:target, a.w.on { outline: .14rem solid var(--mark) }
details { margin-top: .75rem; font-size: .85rem }
summary { cursor: pointer; color: var(--accent); width: fit-content }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .12rem .8rem .12rem 0; text-align: right; white-space: nowrap; font-weight: 400 }
thead th { color: var(--quiet); border-bottom: 1px solid var(--line) }
th:first-child, details td:last-child, details th:last-child { text-align: left }
output { position: fixed; inset: auto 0 0; padding: .6rem 1rem; background: var(--text); color: var(--page);
  font-size: .9rem; text-align: center }
output:empty { display: none }
@media (max-width: 34rem) { body { padding: 1rem .6rem 5rem } .card { padding: .8rem .75rem }
  dl, .made { grid-template-columns: 1fr; gap: 0 } dt { line-height: 1.4; margin-top: .55rem }
  dd.rule { border: 0; padding: 0 } thead { display: none } table, tbody { display: block }
  tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: 0 .8rem; padding: .4rem 0 }
  th:first-child { grid-column: 1 / -1 } tbody td { display: flex; justify-content: space-between; white-space: normal }
  td:empty { display: none } td::before { content: attr(data-head); color: var(--quiet); margin-right: auto } }
@media print { html { font-size: 10pt } body { max-width: none; padding: 0 }
  details:not([open]), output { display: none } }
""" + "\n".join(f".g{level} {{ background: rgb(var(--shade) / {level / LEVELS:.0%}) }}" for level in range(LEVELS + 1))

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
  lit = word.closest("article").querySelectorAll(`[data-slot="${word.dataset.slot}"]`);
  for (const element of lit) element.classList.add("on");
}
for (const kind of ["pointerover", "focusin", "click"]) document.addEventListener(kind, show);
"""
RAMP = f"<span class=ramp>{''.join(f'<i class=g{level}></i>' for level in range(LEVELS + 1))}</span>"


def render(title: str, header: str, main: Iterable[str], style: str = "", script: str = "") -> str:
    """Return a page; `header` and `main` are HTML already, and `style` and `script` are added to the shared ones."""
    style, script = STYLE + style, SCRIPT + script
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script))
    policy = "default-src 'none'; img-src data:; style-src 'sha256-{}'; script-src 'sha256-{}'; ".format(*hashes)
    return f"""<!doctype html>
<html lang=en><head><meta charset=utf-8>
<meta http-equiv=Content-Security-Policy content="{policy}base-uri 'none'; form-action 'none'">
<meta name=viewport content="width=device-width, initial-scale=1"><title>{escape(title)}</title>
<style>{style}</style></head><body>
<header><h1>{escape(title)}</h1>{header}</header><main>{"".join(main)}</main><output aria-live=polite></output>
<script>{script}</script></body></html>
"""


def table(heads: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return a table; a row is a class and its cells, which are HTML already. A narrow window shows a block per row."""
    lines = []
    for kind, (first, *cells) in rows:
        named = zip(heads[1:], cells, strict=True)
        shown = "".join(f'<td data-head="{escape(head)}">{cell}</td>' for head, cell in named)
        lines.append(f'<tr class="{kind}"><th scope=row>{first}</th>{shown}</tr>')
    head = "".join(f"<th scope=col>{escape(name)}</th>" for name in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def items(kind: str, contents: Iterable[str]) -> str:
    """Return a list of a class; `contents` are HTML already."""
    return f'<ul class="{kind}">{"".join(f"<li>{content}</li>" for content in contents)}</ul>'
