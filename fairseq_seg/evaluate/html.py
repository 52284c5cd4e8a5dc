"""The report as one self-contained page; its examples look as on seg-explain's page."""

from __future__ import annotations

import base64
from html import escape

from fairseq_seg.evaluate.examples import Example
from fairseq_seg.evaluate.figures import DARK, LIGHT, Drawing, drawings, render
from fairseq_seg.evaluate.report import Report
from fairseq_seg.evaluate.table import (
    INTERVAL,
    Table,
    by_bin,
    by_pairs,
    empty_bins,
    headline,
    show_gain,
    show_p,
    what_users_notice,
)
from fairseq_seg.explain import html as explain_html
from fairseq_seg.explain import page

STYLE = """
h2.part { font-size: 1.15rem; color: var(--text); margin: 2.5rem 0 .5rem; break-after: avoid }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); gap: .75rem; padding: 0;
  list-style: none; line-height: 1.4 }
.tiles li { padding: .7rem .9rem; margin: 0 }
.tiles b { display: block; font-size: 1.6rem }
.card table { width: 100% }
.card th, .card td { padding: .34rem .5rem; border-bottom: 1px solid var(--line) }
.card th { white-space: normal; vertical-align: bottom; font-weight: 600 }
.base > * { color: var(--quiet) }
.bar { width: 4.5rem; height: .6rem; margin-right: .6rem }
.bar rect { fill: currentColor }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 1rem }
figure.card { margin: 0; padding: .8rem .5rem }
figure img { display: block; width: 100% }
figcaption b { display: block }
.sort[hidden] { display: none }
button { font: inherit; font-size: .9rem; color: var(--text); background: var(--card); border: 1px solid var(--line);
  border-radius: 2rem; padding: .35rem .95rem; margin: .2rem; cursor: pointer }
button[aria-pressed=true] { background: var(--accent); border-color: var(--accent); color: var(--card) }
button:focus-visible { outline: .14rem solid var(--mark) }
.made { grid-template-columns: minmax(5rem, 11rem) 1fr }
@media print { .sort { display: none } .figures { grid-template-columns: 1fr 1fr } }
"""

# Without this script, the examples are sorted by gain.
SCRIPT = """
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


def render_page(report: Report) -> str:
    """Return the page."""
    split, scores = report.split, report.scores
    parts = {"Systems": _table(headline(scores), scores.baseline, bar=1) + _legend(report)}
    parts["What users notice"] = _table(what_users_notice(report.quality), scores.baseline) + _noticed(report)
    figures = "".join(map(_figure, drawings(report)))
    parts["Figures"] = f"<div class=figures>{figures}</div>{_missing(report)}"
    if report.sweep:
        marks = "<b>K</b> retrieved pairs at most, or as many as adaptive selection chooses. <b>Bold</b> the best BLEU."
        parts["One model, K retrieved pairs"] = _table(by_pairs(report.sweep)) + f"<p class=note>{marks}</p>"
    marks = f"<b>Bold</b> the best system of a row. {escape(empty_bins(split.bins))}"
    bins = _table(by_bin(scores, split.bins)) + f"<p class=note>{marks}</p>"
    parts["BLEU by the fuzzy score of the best pair"] = bins
    if report.examples:
        parts["Examples"] = _examples(report.examples)
    parts["How it was made"] = _made(report)
    title = f"{split.source_lang} → {split.target_lang}: translation with a search engine's help"
    header = f"<p class=quiet>{escape(report.checked())}</p>{_tiles(report)}"
    sections = (f"<section><h2 class=part>{name}</h2>{content}</section>" for name, content in parts.items())
    return page.render(title, header, sections, STYLE, SCRIPT)


def _tiles(report: Report) -> str:
    """Show the result in a few large figures."""
    best, baseline = report.best_system(), report.scores.system(report.scores.baseline)
    if best is None:
        return ""
    tm = report.scores.system("TM")
    tiles = {
        f"BLEU of {best.name}": f"{best.mean_bleu:.1f}",
        f"over {baseline.name}, p {show_p(best.p_value)}": show_gain(best.mean_bleu - baseline.mean_bleu),
    }
    if baseline is not tm:
        tiles["over TM, a copy of the best pair"] = show_gain(best.mean_bleu - tm.mean_bleu)
    tiles["sentences checked"] = f"{len(report.split):,}"
    cards = "".join(f"<li class=card><b>{figure}</b>{escape(text)}</li>" for text, figure in tiles.items())
    return f'<ul class="tiles note">{cards}</ul>'


def _table(table: Table, baseline: str | None = None, bar: int | None = None) -> str:
    """Show a table, the row of the baseline in grey; the column `bar` (0 to 100) is also drawn as bars."""
    rows = []
    for number, texts in enumerate(table.rows):
        cells = [
            f"<b>{escape(text)}</b>" if (number, place) in table.best else escape(text)
            for place, text in enumerate(texts)
        ]
        if bar is not None:
            shape = f'<rect width="{float(texts[bar]):.1f}" height="8"/>'
            cells[bar] = f'<svg class=bar viewBox="0 0 100 8" preserveAspectRatio=none>{shape}</svg>{cells[bar]}'
        rows.append(("base" if texts[0] == baseline else "", cells))
    return f"<div class=card>{page.table(table.heads, rows)}</div>"


def _legend(report: Report) -> str:
    """Explain the columns and marks of the first table."""
    baseline = escape(report.scores.baseline)
    marks = {
        "BLEU, chrF": "of detokenised text, from 0 to 100; the bar is BLEU",
        INTERVAL: "half of the 95 % interval of BLEU",
        f"− {baseline}": f"BLEU minus that of {baseline}, the baseline, whose row is grey",
        "p": f"of a paired bootstrap against {baseline}, 1,000 samples: below 0.05, the difference is hardly chance",
        "BLEU Moses": "on Moses-tokenised text, to compare with the paper",
        "pairs, sent./s": "retrieved pairs per sentence, and speed, as fairseq-generate logged them",
        "TM": "copies the target of the best pair",
        "Bold": "the best of a column",
        "–": "does not apply, or is not known",
    }
    if any(len(system.bleu) > 1 for system in report.scores.systems):
        marks["runs"] = "the number of runs (seeds): lowest–highest BLEU; other columns show the mean, p the largest"
    return page.items("legend note", (f"<b>{mark}</b> {meaning}" for mark, meaning in marks.items()))


def _noticed(report: Report) -> str:
    """Explain the columns of the second table."""
    measured = report.quality[0]
    marks = {
        "numbers": "sentences whose numbers are all right, of those whose reference has the source's numbers",
        "placeh., tags": "the same for placeholders and tags" if measured.markup else "",
        "terms": "terms that are translated as the list says, each counted once per sentence" if measured.terms else "",
        "TER": "edits, shifts included, per 100 words of the reference: less is better",
        "char. edits": "insertions, deletions and substitutions per 100 characters of the reference: less is better",
    }
    if measured.wrong_copies is not None:
        marks["wrong copies"] = (
            "per 100 words: words copied from a slot that translates a word which the sentence does not have, and "
            "which the reference does not have either; less is better"
        )
        marks["copied mass"] = "the mean probability, per symbol, that came from the memory"
        marks["judge"] = f"both by the same model for all systems: {escape(report.judge)}"
    marks["*"] = f"p &lt; 0.05 of a paired sign test against {escape(report.scores.baseline)}"
    return page.items("legend note", (f"<b>{mark}</b> {meaning}" for mark, meaning in marks.items() if meaning))


def _figure(drawing: Drawing) -> str:
    light, dark = (
        "data:image/svg+xml;base64," + base64.b64encode(render(drawing, palette, "svg")).decode()
        for palette in (LIGHT, DARK)
    )
    caption = f"<b>{escape(drawing.title)}</b>{escape(drawing.caption)}"
    return (
        f"<figure class=card><figcaption class=note>{caption}</figcaption><picture>"
        f'<source media="screen and (prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(drawing.title)}"></picture></figure>'
    )


def _missing(report: Report) -> str:
    """Return a note if the training logs have no dev BLEU."""
    if not report.curves or any("bleu" in curve.valid for curve in report.curves):
        return ""
    return "<p class=note>The training logs have no BLEU: fairseq-train logs it with --eval-bleu.</p>"


def _examples(examples: list[Example]) -> str:
    """Show the examples by gain, with buttons for other orders."""
    first, third = examples[0], len(examples) // 3
    gates = first.gate is not None
    keys = [("gain", "down", "largest gain"), ("gain", "up", "largest loss")]
    keys += [("gate", "down", "highest gate"), ("gate", "up", "lowest gate")] if gates else []
    keys.append(("score", "down", "best match"))
    buttons = "".join(
        f"<button type=button data-key={key} data-order={order} aria-pressed={str(not place).lower()}>{text}</button>"
        for place, (key, order, text) in enumerate(keys)
    )
    baseline = escape(first.baseline.system)
    marks = [f"<b>chrF</b> of A minus that of B, {baseline}, on this sentence"]
    marks += ["<b>mean gate</b> over the words of A", *explain_html.MARKS] if gates else []
    shown = "".join(map(_example, sorted(examples, key=lambda example: -example.gain)))
    return (
        f"<p class=quiet>{len(examples)} sentences of {escape(first.system)}: the {third} largest gains and the "
        f"{third} largest losses against {baseline} in sentence chrF, the others evenly from the weakest to the "
        f"strongest {'gate' if gates else 'match'}.</p>{explain_html.legend(marks)}"
        f"<p class=sort hidden>Sort by {buttons}</p><div id=list>{shown}</div>"
    )


def _example(example: Example) -> str:
    facts = {"gain": example.gain, "score": example.score} | ({} if example.gate is None else {"gate": example.gate})
    data = " ".join(f'data-{name}="{value:.4f}"' for name, value in facts.items())
    texts = [f"chrF <b>{show_gain(example.gain)}</b>"]
    texts += [] if example.gate is None else [f"mean gate <b>{example.gate:.2f}</b>"]
    texts.append(f"best pair {example.score:.2f}" if example.score >= 0 else "no pair")
    article = explain_html.article(example.explanation, example.index + 1)
    return f"<div {data}><p class=note>{' · '.join(texts)}</p>{article}</div>"


def _made(report: Report) -> str:
    rows = {**report.signatures(), "references": report.split.references_from, "command": report.command}
    listed = "".join(f"<dt>{escape(name)}</dt><dd><code>{escape(value)}</code></dd>" for name, value in rows.items())
    return f'<dl class="made note">{listed}</dl>'
