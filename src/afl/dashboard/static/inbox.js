// The inbox: one box checks all on the page, and the button says how many are checked.

function boxes() {
  return [...document.querySelectorAll("input[type=checkbox][form=several]")];
}

function show() {
  const form = document.getElementById("several");
  if (!form) return;
  const checked = boxes().filter((each) => each.checked).length;
  form.querySelector("[data-with-scripts]").hidden = false;
  const button = form.querySelector("button");
  button.disabled = checked === 0;
  button.textContent = checked ? `Answer ${checked}` : "Answer several";
  const all = form.querySelector("[data-check-all]");
  all.checked = checked > 0 && checked === boxes().length;
  all.indeterminate = checked > 0 && !all.checked;
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-check-all]")) for (const each of boxes()) each.checked = event.target.checked;
  show();
});
document.addEventListener("afl:swapped", show);
window.addEventListener("pageshow", show);
show();
