// The open file and what was confirmed, in this browser's own database: a reload or a crash loses nothing.

const open = new Promise((resolve, reject) => {
  const request = indexedDB.open("workbench", 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore("file");
    request.result.createObjectStore("edits");
  };
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

// Run a function with the two stores, and return its request's result when everything is safely stored.
async function transaction(mode, work) {
  const database = await open;
  return new Promise((resolve, reject) => {
    const running = database.transaction(["file", "edits"], mode, { durability: "strict" });
    const request = work(running.objectStore("file"), running.objectStore("edits"));
    running.oncomplete = () => resolve(request && request.result);
    running.onerror = running.onabort = () => reject(running.error);
  });
}

export const saveFile = (file) => transaction("readwrite", (files, edits) => {
  edits.clear();
  return files.put(file, "open");
});

export const loadFile = () => transaction("readonly", (files) => files.get("open"));

export const saveEdit = (index, edit) => transaction("readwrite", (_, edits) => edits.put(edit, index));

export const dropEdit = (index) => transaction("readwrite", (_, edits) => edits.delete(index));

export async function loadEdits() {
  const keys = await transaction("readonly", (_, edits) => edits.getAllKeys());
  const values = await transaction("readonly", (_, edits) => edits.getAll());
  return new Map(keys.map((key, place) => [key, values[place]]));
}
