// What an agent says while it says it: pieces of text come from the address in <div data-words data-words-src="...">.
// The transcript is fetched again whenever the turn changes; what is not in it yet is then put back. When the step is
// stored, the transcript has the whole card, and the pieces go.

import { whileVisible } from "./visible.js";

const place = () => document.querySelector("[data-words]");
const first = place();
let said = "";
let isOver = false;

function show() {
  const shown = place();
  if (!shown) return;
  shown.textContent = said; // whatever it says stays text
  shown.closest("li").hidden = said === "";
}

function listen() {
  said = ""; // it begins with the step under way
  const source = new EventSource(first.dataset.wordsSrc);
  source.addEventListener("words", (event) => {
    said += JSON.parse(event.data);
    show();
  });
  source.addEventListener("stored", () => {
    said = "";
    show();
  });
  source.addEventListener("over", () => {
    isOver = true;
    source.close();
  });
  return source;
}

if (first?.dataset.wordsSrc) {
  whileVisible(() => (isOver ? null : listen()));
  document.addEventListener("afl:swapped", show);
}
