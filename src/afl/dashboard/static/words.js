// What an agent says while it says it: pieces of text are added to <div data-words data-words-src="...">. When the step
// is stored, the transcript is fetched again with the whole card, and the pieces go.

const place = () => document.querySelector("[data-words]");
const first = place();

if (first?.dataset.wordsSrc) {
  const source = new EventSource(first.dataset.wordsSrc);
  source.addEventListener("words", (event) => {
    const shown = place();
    if (!shown) return source.close();
    shown.append(JSON.parse(event.data)); // as a text node: whatever it says stays text
    shown.closest("li").hidden = false;
  });
  source.addEventListener("over", () => source.close());
  window.addEventListener("pagehide", () => source.close());
}
