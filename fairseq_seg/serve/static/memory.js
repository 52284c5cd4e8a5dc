// The memory beside the segments: the pairs of the current one, and the concordance.

import { call } from "./api.js";
import { compared, el } from "./text.js";

const $ = (id) => document.getElementById(id);

export class Memory {
  constructor(bench) {
    this.bench = bench;
    $("concordance-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.find($("query").value);
    });
    for (const name of ["mouseup", "keyup"]) {
      document.addEventListener(name, (event) => {
        if (event.target.closest && event.target.closest(".segment")) this.findSelected(event.target);
      });
    }
  }

  clear() {
    $("matches").replaceChildren();
    this.point(null, "");
  }

  showMatches(pairs, source, take) {
    const items = pairs.map((pair, number) => {
      const button = el("button", { type: "button", "aria-label": `Take the target of pair ${number + 1}` }, "Take");
      button.addEventListener("click", () => take(number + 1));
      return el("li", { class: "pair" },
        el("span", { class: "band" }, `${Math.floor(pair.score * 100 + 1e-4)} %`), " ",
        el("span", { class: "quiet" }, pair.origin),
        el("p", { class: "source", dir: "auto" }, ...compared(pair.source, source, "del")),
        el("p", { class: "target", dir: "auto" }, pair.target), button);
    });
    $("matches").replaceChildren(...(items.length ? items : [el("li", { class: "quiet" }, "None.")]));
  }

  // Mark the pair that a word was copied from, and say so for those who cannot see it.
  point(word, about) {
    const items = [...$("matches").children];
    items.forEach((item, number) => item.classList.toggle("added", Boolean(word) && number === word.pair));
    $("message").textContent = about;
  }

  findSelected(target) {
    const field = target.closest("textarea");
    const text = field
      ? field.value.slice(field.selectionStart, field.selectionEnd)
      : String(document.getSelection());
    if (text.trim() && text.length < 200 && text.trim() !== $("query").value) {
      $("query").value = text.trim();
      this.find(`"${text.trim().replaceAll('"', " ")}"`);
    }
  }

  async find(query) {
    if (!query.trim()) return;
    const list = $("concordance");
    try {
      const { pairs } = await call("POST", "v1/concordance", { query, count: 20, ...this.bench.languages() });
      const items = pairs.map((pair) => el("li", {},
        el("p", { class: "source", dir: "auto" }, pair.source), el("p", { class: "target", dir: "auto" }, pair.target),
        el("span", { class: "quiet" }, [pair.memory, pair.origin].filter(Boolean).join(" · "))));
      list.replaceChildren(...(items.length ? items : [el("li", { class: "quiet" }, "No pair has these words.")]));
    } catch (error) {
      list.replaceChildren(el("li", { class: "quiet" }, error.message));
    }
  }
}
