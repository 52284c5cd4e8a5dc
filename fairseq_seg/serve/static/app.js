// The workbench: a file's segments, the memory beside them, and what the translator does with them.

import { bytesOf, call, upload } from "./api.js";
import { Editor } from "./editor.js";
import { Memory } from "./memory.js";
import { dropEdit, loadEdits, loadFile, saveEdit, saveFile } from "./store.js";
import { el } from "./text.js";

const $ = (id) => document.getElementById(id);
const bench = { server: null, file: null, edits: new Map(), current: -1, undo: [], rows: [] };
const BANDS_AT_ONCE = 50;
const memory = new Memory(bench);
const editor = new Editor(bench, memory, { confirm, say });

function say(message) {
  $("message").textContent = message;
  clearTimeout(say.timer);
  if (message) say.timer = setTimeout(() => ($("message").textContent = ""), 8000);
}

// Run what a user asked for, and say what went wrong with it.
async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    say(error.message);
  }
}

const direction = () => $("direction").value.split("|");
bench.languages = () => ({ source: direction()[0], target: direction()[1] });
bench.writable = () => {
  const [source, target] = direction();
  return bench.server.memories.find((one) => one.writable && one.source === source && one.target === target);
};

// The file

async function openFile(name, bytes) {
  const query = new URLSearchParams({ name, ...bench.languages() });
  const answer = await upload(`v1/files?${query}`, bytes);
  if (!answer.segments.length) throw new Error(`${name} has no segments.`);
  const file = { name, bytes, format: answer.format, segments: answer.segments, direction: $("direction").value };
  await saveFile(file);
  bench.edits = new Map();
  show(file);
}

function show(file) {
  bench.file = file;
  bench.undo = [];
  bench.current = -1;
  $("direction").value = file.direction;
  $("name").textContent = file.name;
  $("download").disabled = false;
  bench.rows = file.segments.map(row);
  $("segments").replaceChildren(...bench.rows);
  bench.rows.forEach((_, index) => refresh(index));
  progress();
  const first = next(-1);
  if (first >= 0) activate(first);
  attempt(() => bands(file));
}

bench.textOf = (index) => (bench.edits.has(index) ? bench.edits.get(index).text : bench.file.segments[index].target);

// A segment is confirmed here, or it is as the file has it: new, fuzzy or done.
bench.stateOf = (index) => (bench.edits.has(index) ? "confirmed" : bench.file.segments[index].state);

function row(segment, index) {
  const button = el("button", { class: "number", type: "button", "aria-label": `Segment ${index + 1}` },
    el("span", {}, String(index + 1)), el("br"), el("span", { class: "band", hidden: true }));
  button.addEventListener("click", () => activate(index));
  return el("article", { class: "segment", id: `segment-${index}`, "aria-label": `Segment ${index + 1}` }, button,
    el("p", { class: "source", lang: bench.languages().source, dir: "auto" }, segment.source),
    el("p", { class: "target", lang: bench.languages().target, dir: "auto" }),
    segment.context || segment.locked
      ? el("p", { class: "context quiet" }, [segment.context, segment.locked].filter(Boolean).join(" · ")) : null);
}

function refresh(index) {
  const element = bench.rows[index], state = bench.stateOf(index);
  element.className = `segment ${state}`;
  element.querySelector(".target").textContent = bench.textOf(index);
  element.querySelector(".number").setAttribute("aria-label", `Segment ${index + 1}, ${state}`);
}

function progress() {
  const open = bench.file.segments.map((_, index) => index).filter((index) => !bench.file.segments[index].locked);
  const done = open.filter((index) => ["confirmed", "done"].includes(bench.stateOf(index))).length;
  $("progress").max = open.length || 1;
  $("progress").value = done;
  $("count").textContent = `${done} of ${open.length}`;
  $("undo").disabled = !bench.undo.length;
}

// The match bands of segments, some at a time, as long as this file is open.
async function bands(file) {
  const open = file.segments.map((_, index) => index).filter((index) => !file.segments[index].locked);
  for (let start = 0; start < open.length && bench.file === file; start += BANDS_AT_ONCE) {
    const some = open.slice(start, start + BANDS_AT_ONCE);
    const texts = some.map((index) => file.segments[index].source);
    const { matches } = await call("POST", "v1/analyse", { texts, codes: true, ...bench.languages() });
    some.forEach((index, place) => bench.file === file && bench.showBand(index, matches[place].score));
  }
}

bench.showBand = (index, score) => {
  const band = bench.rows[index].querySelector(".band"), percent = Math.floor(score * 100 + 1e-4);
  band.hidden = false;
  band.textContent = percent ? `${percent} %` : "new";
};

// The next segment that waits for somebody.
function next(index) {
  const waits = (place) => !bench.file.segments[place].locked && ["new", "fuzzy"].includes(bench.stateOf(place));
  for (let place = index + 1; place < bench.rows.length; place++) if (waits(place)) return place;
  return -1;
}

function activate(index) {
  if (index < 0 || index >= bench.rows.length) return;
  if (bench.current >= 0) {
    editor.leave();
    bench.rows[bench.current].removeAttribute("aria-current");
    refresh(bench.current);
  }
  bench.current = index;
  bench.rows[index].setAttribute("aria-current", "true");
  bench.rows[index].scrollIntoView({ block: "nearest" });
  attempt(() => editor.enter(bench.rows[index], index));
}

// Confirming

async function confirm(text) {
  const index = bench.current, segment = bench.file.segments[index], before = bench.edits.get(index);
  if (!text.trim()) return say("An empty translation cannot be confirmed.");
  const edit = { text, pair: before && before.pair, sent: false };
  await saveEdit(index, edit); // first of all: from here on nothing can be lost
  bench.edits.set(index, edit);
  bench.undo.push({ index, before });
  await attempt(() => remember(index, segment, edit));
  refresh(index);
  progress();
  const following = next(index);
  if (following >= 0) activate(following);
  else {
    editor.leave();
    say("All segments are confirmed.");
  }
}

// Put a confirmed segment into the memory: a new pair, or the one that was confirmed before with its new text.
async function remember(index, segment, edit) {
  const to = bench.writable();
  if (!to) return;
  const path = `v1/memories/${encodeURIComponent(to.name)}/pairs`;
  if (edit.pair && edit.pair.added) {
    await call("PATCH", `${path}/${edit.pair.id}`, { target: edit.text, codes: segment.codes });
  } else {
    const origin = bench.file.name.slice(0, 200);
    const { id, added } = await call("POST", path, {
      source: segment.source, target: edit.text, origin, codes: segment.codes,
    });
    edit.pair = { memory: to.name, id, added };
  }
  edit.sent = true;
  await saveEdit(index, edit);
}

async function undo() {
  const last = bench.undo.pop();
  if (!last) return;
  const { index, before } = last, edit = bench.edits.get(index);
  if (edit.pair && edit.pair.added) {
    const path = `v1/memories/${encodeURIComponent(edit.pair.memory)}/pairs/${edit.pair.id}`;
    if (before) await call("PATCH", path, { target: before.text, codes: bench.file.segments[index].codes });
    else await call("DELETE", path);
  }
  if (before) {
    bench.edits.set(index, { ...before, pair: edit.pair });
    await saveEdit(index, bench.edits.get(index));
  } else {
    bench.edits.delete(index);
    await dropEdit(index);
  }
  refresh(index);
  progress();
  activate(index);
}

// What could not be sent when it was confirmed is sent later.
async function sendRest() {
  for (const [index, edit] of bench.edits) {
    if (!edit.sent) await remember(index, bench.file.segments[index], edit);
  }
}

async function download() {
  const edits = [...bench.edits].map(([index, edit]) => ({ segment: index, text: edit.text }));
  const bytes = new Uint8Array(bench.file.bytes);
  let text = "";
  for (let place = 0; place < bytes.length; place += 32768) text += String.fromCharCode(...bytes.subarray(place, place + 32768));
  const body = { name: bench.file.name, content: btoa(text), edits, ...bench.languages() };
  const url = URL.createObjectURL(await bytesOf("v1/files/write", body));
  el("a", { href: url, download: bench.file.name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// The page

$("file").addEventListener("change", (event) => attempt(async () => {
  const [file] = event.target.files;
  if (file) await openFile(file.name, await file.arrayBuffer());
  event.target.value = "";
}));
$("paste").addEventListener("click", () => $("paste-dialog").showModal());
$("paste-dialog").addEventListener("close", () => attempt(async () => {
  const text = $("pasted").value;
  if ($("paste-dialog").returnValue === "ok" && text.trim()) {
    await openFile("pasted.txt", new TextEncoder().encode(text.endsWith("\n") ? text : `${text}\n`).buffer);
  }
}));
$("undo").addEventListener("click", () => attempt(undo));
$("download").addEventListener("click", () => attempt(download));
$("direction").addEventListener("change", () => bench.file && attempt(() => openFile(bench.file.name, bench.file.bytes)));
document.addEventListener("keydown", (event) => {
  if (!bench.file || !event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "ArrowDown") activate(bench.current + 1);
  else if (event.key === "ArrowUp") activate(bench.current - 1);
  else if (event.code === "KeyZ") attempt(undo);
  else if (/^Digit\d$/.test(event.code)) editor.take(Number(event.code.slice(5)));
  else return;
  event.preventDefault();
});
setInterval(() => bench.file && attempt(sendRest), 30000);

await attempt(async () => {
  bench.server = await call("GET", "v1/server");
  const { directions, names } = bench.server;
  $("direction").append(...directions.map(([from, to]) => el("option", { value: `${from}|${to}` }, `${names[from]} → ${names[to]}`)));
  const file = await loadFile();
  if (file && directions.some((pair) => pair.join("|") === file.direction)) {
    bench.edits = await loadEdits();
    show(file);
    await sendRest();
  } else {
    $("segments").append(el("p", { class: "welcome quiet" },
      "Open a PO, XLIFF, TMX, TSV or text file, or paste text. What you confirm goes into the memory, and the next ",
      "segment is translated with it."));
  }
});
document.body.dataset.ready = "true";
