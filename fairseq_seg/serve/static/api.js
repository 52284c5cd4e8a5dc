// Requests to the server, with the key of this tab if there is one.

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const key = () => sessionStorage.getItem("key") || "";

async function send(method, path, body, type) {
  const headers = {};
  if (key()) headers.Authorization = `Bearer ${key()}`;
  if (body !== undefined) headers["Content-Type"] = type;
  let response;
  try {
    response = await fetch(path, { method, headers, body });
  } catch {
    throw new Refused(0, "The server cannot be reached.");
  }
  if (response.status === 403 && (await askForKey())) return send(method, path, body, type);
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw new Refused(response.status, answer.error || `The server answered with status ${response.status}.`);
  }
  return response;
}

export async function call(method, path, body) {
  const text = body === undefined ? undefined : JSON.stringify(body);
  return (await send(method, path, text, "application/json")).json();
}

export async function upload(path, bytes) {
  return (await send("POST", path, bytes, "application/octet-stream")).json();
}

export async function bytesOf(path, body) {
  return (await send("POST", path, JSON.stringify(body), "application/json")).blob();
}

// Ask for a key once; return whether there is another one to try.
let asking = null;
function askForKey() {
  asking ||= new Promise((resolve) => {
    const dialog = document.getElementById("key-dialog");
    const before = key();
    dialog.addEventListener("close", () => {
      const given = document.getElementById("key").value.trim();
      asking = null;
      if (given) sessionStorage.setItem("key", given);
      resolve(Boolean(given) && given !== before);
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}
