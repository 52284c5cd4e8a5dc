// The segment that is being worked on: its translation, where the words came from, and the text to confirm.

import { call } from "./api.js";
import { compared, el } from "./text.js";

const LEVELS = 10, PAUSE = 300;

export class Editor {
  constructor(bench, memory, { confirm, say }) {
    Object.assign(this, { bench, memory, confirm, say });
    this.turn = 0; // answers to a segment that was left since are dropped
  }

  leave() {
    this.turn++;
    clearTimeout(this.timer);
    if (!this.box) return;
    const index = this.bench.current, source = this.bench.rows[index].querySelector(".source");
    source.replaceChildren(this.bench.file.segments[index].source);
    this.box.remove();
    this.bench.rows[index].querySelector(".target").hidden = false;
    this.box = this.translation = null;
    this.memory.clear();
  }

  async enter(row, index) {
    const turn = ++this.turn, segment = this.bench.file.segments[index];
    this.suggestion = el("p", { class: "suggestion", dir: "auto", "aria-label": "Translation, shaded by what was copied" });
    this.text = el("textarea", { rows: 3, "aria-label": `Translation of segment ${index + 1}`, dir: "auto",
      lang: this.bench.languages().target, spellcheck: true, readonly: Boolean(segment.locked) });
    this.findings = el("ul", { class: "findings", "aria-label": "Checks", "aria-live": "polite" });
    const confirm = el("button", { type: "button", class: "main", disabled: Boolean(segment.locked) }, "Confirm");
    const again = el("button", { type: "button" }, "Take the translation");
    confirm.addEventListener("click", () => this.confirm(this.text.value));
    again.addEventListener("click", () => this.take(0));
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !segment.locked) {
        event.preventDefault();
        this.confirm(this.text.value);
      }
    });
    this.text.addEventListener("input", () => this.checkSoon());
    this.box = el("div", { class: "editor" }, this.suggestion, this.text, this.findings, el("div", { class: "row" }, confirm, again));
    row.querySelector(".target").hidden = true;
    row.append(this.box);
    this.text.value = this.bench.textOf(index);
    this.text.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    this.suggestion.textContent = "…";
    const [translated] = (await call("POST", "v1/translate", {
      texts: [segment.source], provenance: true, codes: segment.codes, ...this.bench.languages(),
    })).translations;
    if (turn !== this.turn) return;
    this.translation = translated;
    this.show(row, segment);
    if (this.bench.stateOf(index) === "new" && !this.text.value) this.text.value = translated.text;
    row.dataset.translated = this.turn;
    this.check();
  }

  // Show the translation, the band, and what the source has that the best pair has not.
  show(row, segment) {
    const { pairs, words, text, flags } = this.translation;
    const best = pairs[0];
    this.bench.showBand(this.bench.current, best ? best.score : 0);
    if (best) {
      row.querySelector(".source").replaceChildren(...compared(segment.source, best.source, "ins"));
    }
    const shown = [];
    if (flags.includes("exact")) shown.push(el("span", { class: "w g10", title: "An exact match, verbatim" }, text));
    else {
      for (const word of words || []) {
        const from = word.pair === null ? "generated" : `copied from pair ${word.pair + 1} (${pairs[word.pair].origin})`;
        const about = `${word.text}: ${from}, memory's weight ${word.gate.toFixed(2)}`;
        const span = el("span", { class: `w g${Math.round(word.share * LEVELS)}${word.pair === null ? "" : " copied"}`,
          tabindex: word.pair === null ? null : 0, title: about }, word.text,
          word.pair === null ? null : el("sup", { "aria-hidden": "true" }, String(word.pair + 1)));
        const point = (on) => () => this.memory.point(on ? word : null, on ? about : "");
        for (const [name, on] of [["pointerenter", true], ["focus", true], ["pointerleave", false], ["blur", false]]) {
          span.addEventListener(name, point(on));
        }
        if (shown.length) shown.push(" ");
        shown.push(span);
      }
    }
    for (const flag of flags.filter((name) => name !== "exact")) shown.push(" ", el("span", { class: "band" }, flag));
    this.suggestion.replaceChildren(...shown);
    this.memory.showMatches(pairs, segment.source, (number) => this.take(number));
  }

  // Take the translation (0) or the target of a pair.
  take(number) {
    if (!this.translation || this.text.readOnly) return;
    const text = number ? this.translation.pairs[number - 1]?.target : this.translation.text;
    if (text === undefined) return;
    this.text.focus();
    this.text.setRangeText(text, 0, this.text.value.length, "end");
    this.check();
  }

  checkSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), PAUSE);
  }

  async check() {
    const turn = this.turn, translation = this.text.value;
    const text = this.bench.file.segments[this.bench.current].source;
    try {
      const { findings } = await call("POST", "v1/check", { text, translation, ...this.bench.languages() });
      if (turn !== this.turn || translation !== this.text.value) return;
      this.findings.replaceChildren(...findings.map(({ kind, detail, doubt }) =>
        el("li", { class: doubt ? "doubt" : null }, `${doubt ? "Perhaps: " : ""}${kind} ${detail}`)));
    } catch (error) {
      this.say(error.message);
    }
  }
}
