"""The report as one self-contained page; its examples share the style and parts of seg-explain's page.

The page's Content-Security-Policy admits its own style sheet and script by their hashes, and images within the page.
"""

from __future__ import annotations

import base64
from html import escape

from fairseq_seg.evaluate.examples import Example
from fairseq_seg.evaluate.figures import DARK, LIGHT, Drawing, drawings, render
from fairseq_seg.evaluate.report import Report
from fairseq_seg.evaluate.table import Table, by_bin, by_pairs, empty_bins, headline, show_gain, show_p
from fairseq_seg.explain import html as explain_html

STYLE = (
    explain_html.STYLE
    + """
h2.part { font-size: 1.15rem; color: var(--text); margin: 2.5rem 0 .5rem; line-height: 1.3 }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.25rem 0; padding: 0; list-style: none }
.tiles li { flex: 1 1 9rem; background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .7rem .9rem; font-size: .85rem; line-height: 1.4; color: var(--quiet) }
.tiles b { display: block; font-size: 1.7rem; line-height: 1.25; font-weight: 650; color: var(--text);
  font-variant-numeric: tabular-nums }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1rem .8rem;
  overflow-x: auto; overflow-wrap: normal }
.card table { width: 100%; margin: 0; font-size: .95rem }
.card th { white-space: normal }
.card thead th { vertical-align: bottom; line-height: 1.3 }
.card th, .card td { padding: .34rem .5rem; text-align: right; border-bottom: 1px solid var(--line) }
.card tbody tr:last-child > * { border-bottom: 0 }
.card th:first-child { text-align: left; position: sticky; left: -1rem; background: var(--card); font-weight: 600;
  padding-left: .2rem }
.card td:last-child, .card th:last-child { text-align: right }
.card td.best { font-weight: 700 }
.card tr.base > * { color: var(--quiet) }
.card svg { display: block; width: 4.5rem; height: .6rem }
.card rect { fill: var(--accent) }
.card .base rect { fill: var(--quiet) }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 1rem }
figure { margin: 0; display: flex; flex-direction: column; justify-content: space-between; padding: .8rem;
  background: var(--card); border: 1px solid var(--line); border-radius: .5rem }
figure img { display: block; width: 100%; height: auto }
figcaption { font-size: .85rem; color: var(--quiet); line-height: 1.45; margin-bottom: .4rem }
figcaption b { display: block; color: var(--text); font-size: .95rem }
.sort { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: .75rem 0 }
.sort[hidden] { display: none }
button { font: inherit; font-size: .9rem; color: var(--text); background: var(--card); border: 1px solid var(--line);
  border-radius: 2rem; padding: .35rem .95rem; min-height: 2.4rem; cursor: pointer }
button[aria-pressed=true] { background: var(--accent); border-color: var(--accent); color: var(--card) }
button:focus-visible { outline: .14rem solid var(--mark) }
.facts { display: flex; flex-wrap: wrap; gap: 0 1rem; font-size: .85rem; color: var(--quiet); margin: 0 0 .3rem;
  font-variant-numeric: tabular-nums }
.facts b { color: var(--text) }
.made { font-size: .8rem; color: var(--quiet) }
.made dl { grid-template-columns: 11rem 1fr }
.made dt { line-height: 1.65 }
.made code { font-size: .95em }
.note { font-size: .9rem; line-height: 1.5; margin-top: .5rem }
@media (max-width: 62rem), print { .card .bar { display: none } }
@media (max-width: 34rem) {
  .made dl { grid-template-columns: 1fr }
  .tiles { display: grid; grid-template-columns: 1fr 1fr; gap: .5rem }
  .tiles b { font-size: 1.4rem }
  .card { padding: .3rem .7rem .4rem }
  .card table { font-size: .82rem }
  .card th, .card td { padding: .34rem .4rem }
  .card th:first-child { left: -.7rem; min-width: 5.5rem; line-height: 1.3 }
  figure { padding: .6rem .4rem }
}
@media print { h2.part { break-after: avoid } figure, .card, #list > div { break-inside: avoid } .sort { display: none }
  .card table { font-size: 8.5pt } .figures { grid-template-columns: 1fr 1fr } }
"""
)

# Without this script, the examples are sorted by gain.
SCRIPT = (
    explain_html.SCRIPT
    + """
const sort = document.querySelector(".sort"), list = document.querySelector("#list");
if (sort) {
  sort.hidden = false;
  sort.addEventListener("click", event => {
    const chosen = event.target.closest("button");
    if (!chosen) return;
    for (const button of sort.querySelectorAll("button")) button.setAttribute("aria-pressed", button === chosen);
    const sign = chosen.dataset.order === "up" ? 1 : -1, key = chosen.dataset.key;
    list.append(...[...list.children].sort((a, b) => sign * (a.dataset[key] - b.dataset[key])));
  });
}
"""
)

POLICY = (
    f"default-src 'none'; img-src data:; style-src {explain_html.csp_hash(STYLE)}; "
    f"script-src {explain_html.csp_hash(SCRIPT)}; base-uri 'none'; form-action 'none'"
)


def render_page(report: Report) -> str:
    """Return the page."""
    split, scores = report.split, report.scores
    title = f"{split.source_lang} → {split.target_lang}: translation with a search engine's help"
    bins = split.bins
    parts = [
        _part("Systems", _table(headline(scores), scores.baseline, bar=1) + _legend(report)),
        _part("Figures", f"<div class=figures>{''.join(map(_figure, drawings(report)))}</div>" + _missing(report)),
    ]
    if report.sweep:
        parts.append(_part("One model, K retrieved pairs", _table(by_pairs(report.sweep))))
    empty = f"<p class='quiet note'>{escape(empty_bins(bins))}</p>"
    parts.append(_part("BLEU by the fuzzy score of the best pair", _table(by_bin(scores, bins)) + empty))
    if report.examples:
        parts.append(_part("Examples", _examples(report.examples)))
    parts.append(_part("How it was made", _made(report)))
    return f"""<!doctype html>
<html lang=en><head><meta charset=utf-8><meta http-equiv=Content-Security-Policy content="{POLICY}">
<meta name=viewport content="width=device-width, initial-scale=1"><title>{escape(title)}</title>
<style>{STYLE}</style></head><body>
<header><h1>{escape(title)}</h1><p class=quiet>{escape(report.checked())}</p>{_tiles(report)}</header>
<main>{"".join(parts)}</main><output aria-live=polite></output>
<script>{SCRIPT}</script></body></html>
"""


def _part(title: str, content: str) -> str:
    return f"<section><h2 class=part>{escape(title)}</h2>{content}</section>"


def _tiles(report: Report) -> str:
    """Show the result in a few large figures."""
    best, baseline = report.best_system(), report.scores.system(report.scores.baseline)
    if best is None:
        return ""
    tm = report.scores.system("TM")
    tiles = [
        (f"{best.mean_bleu:.1f}", f"BLEU of {best.name}"),
        (show_gain(best.mean_bleu - baseline.mean_bleu), f"over {baseline.name}, p {show_p(best.p_value)}"),
    ]
    if baseline is not tm:
        tiles.append((show_gain(best.mean_bleu - tm.mean_bleu), "over TM, a copy of the best pair"))
    tiles.append((f"{len(report.split):,}", "sentences checked"))
    return f"<ul class=tiles>{''.join(f'<li><b>{figure}</b>{escape(text)}</li>' for figure, text in tiles)}</ul>"


def _table(table: Table, baseline: str | None = None, bar: int | None = None) -> str:
    """Show a table, the row of the baseline in grey; the column `bar` (0 to 100) is also drawn as bars."""
    heads = [f"<th scope=col>{escape(head)}</th>" for head in table.heads]
    if bar is not None:
        heads.insert(1, "<td class=bar></td>")
    rows = []
    for number, row in enumerate(table.rows):
        cells = [f"<th scope=row>{escape(row[0])}</th>"]
        if bar is not None:
            shape = f'<rect width="{float(row[bar]):.1f}" height="8"/>'
            cells.append(f'<td class=bar><svg viewBox="0 0 100 8" preserveAspectRatio="none">{shape}</svg></td>')
        for place, cell in enumerate(row[1:], 1):
            mark = " class=best" if place in table.best.get(number, ()) else ""
            cells.append(f"<td{mark}>{escape(cell)}</td>")
        kind = " class=base" if row[0] == baseline else ""
        rows.append(f"<tr{kind}>{''.join(cells)}</tr>")
    return (
        f"<div class=card><table><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _legend(report: Report) -> str:
    name = escape(report.scores.baseline)
    runs = ""
    if any(len(system.bleu) > 1 for system in report.scores.systems):
        runs = " Systems with several runs (seeds) show the mean, the lowest and the highest; p is the largest."
    return (
        "<p class='quiet note'>BLEU and chrF of detokenised text, ± half of the 95 % interval; p of a paired bootstrap "
        f"against {name}, 1,000 samples; BLEU Moses on Moses-tokenised text, to compare with the paper; pairs and "
        f"sentences per second as fairseq-generate logged them. TM copies the target of the best pair.{runs}</p>"
    )


def _figure(drawing: Drawing) -> str:
    light, dark = (
        "data:image/svg+xml;base64," + base64.b64encode(render(drawing, palette, "svg")).decode()
        for palette in (LIGHT, DARK)
    )
    caption = f"<b>{escape(drawing.title)}</b>{escape(drawing.caption)}"
    return (
        f"<figure><figcaption>{caption}</figcaption><picture>"
        f'<source media="screen and (prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(drawing.title)}"></picture></figure>'
    )


def _missing(report: Report) -> str:
    """Return a note if the training logs have no dev BLEU."""
    if not report.curves or any("bleu" in curve.valid for curve in report.curves):
        return ""
    return "<p class='quiet note'>The training logs have no BLEU: fairseq-train logs it with --eval-bleu.</p>"


def _examples(examples: list[Example]) -> str:
    """Show the examples by gain, with buttons for other orders."""
    gates = all(example.gate is not None for example in examples)
    keys = [("gain", "down", "largest gain"), ("gain", "up", "largest loss")]
    keys += [("gate", "down", "highest gate"), ("gate", "up", "lowest gate")] if gates else []
    keys.append(("score", "down", "best match"))
    buttons = "".join(
        f"<button type=button data-key={key} data-order={order} aria-pressed={str(not place).lower()}>{text}</button>"
        for place, (key, order, text) in enumerate(keys)
    )
    labels = "".join(f"<li><b>{label}</b> {meaning}</li>" for label, meaning in explain_html.LEGEND.items())
    if gates:
        ramp = "".join(f"<i class=g{level}></i>" for level in range(explain_html.LEVELS + 1))
        labels = f'<li>gate 0<span class=ramp role=img aria-label="from no shade to blue">{ramp}</span>1</li>' + labels
    ordered = sorted(examples, key=lambda example: -example.gain)
    third = len(examples) // 3
    return (
        f"<p class=quiet>{len(examples)} sentences of {escape(examples[0].system)}: "
        f"the {third} largest gains and the {third} largest losses against "
        f"{escape(examples[0].baseline)} in sentence chrF, the others evenly from the weakest to the strongest "
        f"{'gate' if gates else 'match'}.</p><ul class=legend>{labels}</ul>"
        f"<p class=sort hidden>Sort by {buttons}</p><div id=list>{''.join(map(_example, ordered))}</div>"
    )


def _example(example: Example) -> str:
    score = f"best pair {example.score:.2f}" if example.score >= 0 else "no pair"
    gate = "" if example.gate is None else f"<span>mean gate <b>{example.gate:.2f}</b></span>"
    facts = f"<p class=facts><span>chrF <b>{show_gain(example.gain)}</b></span>{gate}<span>{score}</span></p>"
    data = f'data-gain="{example.gain:.4f}" data-score="{example.score:.4f}"'
    if example.gate is not None:
        data += f' data-gate="{example.gate:.4f}"'
    return f"<div {data}>{facts}{_article(example)}</div>"


def _article(example: Example) -> str:
    """Show S, RS, RT, A, B and T; if the gates are known, as on seg-explain's page."""
    if example.explanation is not None:
        return explain_html.article(example.explanation, example.index + 1)
    rows = [("S", example.source, ""), ("A", example.translation, "ours"), ("B", example.baseline_translation, "after")]
    rows.append(("T", example.reference, "after"))
    if example.score >= 0:
        rows[1:1] = [("RS", example.pair_source, "pair"), ("RT", example.pair_target, "")]
    listed = "".join(explain_html.row(label, escape(text), kind) for label, text, kind in rows)
    return f"<article><h2>Sentence {example.index + 1}</h2><dl>{listed}</dl></article>"


def _made(report: Report) -> str:
    rows = {**report.signatures(), "references": report.split.references_from, "command": report.command}
    listed = "".join(f"<dt>{escape(name)}</dt><dd><code>{escape(value)}</code></dd>" for name, value in rows.items())
    return f"<div class=made><dl>{listed}</dl></div>"
