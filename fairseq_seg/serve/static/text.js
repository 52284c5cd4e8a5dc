// Build elements from texts (never from markup), and compare texts word by word.

// el("p", {class: "quiet"}, "text", child): texts stay texts, whatever they hold.
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const words = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) || [];

// Return which words of a text are also in another, in the same order (longest common subsequence).
export function shared(ours, theirs) {
  const rows = ours.length, columns = theirs.length;
  if (rows * columns > 1e6) return ours.map((word) => theirs.includes(word));
  const width = columns + 1;
  const longest = new Uint16Array((rows + 1) * width);
  for (let row = rows - 1; row >= 0; row--) {
    for (let column = columns - 1; column >= 0; column--) {
      const place = row * width + column;
      longest[place] = ours[row] === theirs[column]
        ? longest[place + width + 1] + 1
        : Math.max(longest[place + width], longest[place + 1]);
    }
  }
  const found = new Array(rows).fill(false);
  for (let row = 0, column = 0; row < rows && column < columns;) {
    if (ours[row] === theirs[column]) {
      found[row++] = true;
      column++;
    } else if (longest[(row + 1) * width + column] >= longest[row * width + column + 1]) row++;
    else column++;
  }
  return found;
}

// Return a text as nodes, with the words that another text does not have in elements of a name (ins, del).
export function compared(text, other, name) {
  const ours = words(text), same = shared(ours, words(other)), nodes = [];
  let run = "";
  const flush = () => {
    if (run) nodes.push(el(name, {}, run));
    run = "";
  };
  ours.forEach((word, place) => {
    if (same[place]) {
      flush();
      nodes.push(word);
    } else run += word;
  });
  flush();
  return nodes;
}
