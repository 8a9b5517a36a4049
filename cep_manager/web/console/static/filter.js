// Shows the rows of a list whose `data-words` contain the search text, which is kept in the page's address.

const bar = document.querySelector("[data-filter]");
const list = document.getElementById(bar.dataset.filter);
const field = bar.querySelector("input");
const told = bar.querySelector("[role=status]");

function apply() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...list.querySelectorAll("[data-words]")];
  for (const row of rows) {
    row.hidden = !words.every((word) => row.dataset.words.includes(word));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  const text = words.length ? `${shown} of ${rows.length}` : "";
  if (told.textContent !== text) {
    told.textContent = text;
  }
  bar.hidden = rows.length === 0;
}

field.value = new URLSearchParams(location.search).get("q") ?? "";
field.addEventListener("input", () => {
  apply();
  const address = new URL(location.href);
  if (field.value) {
    address.searchParams.set("q", field.value);
  } else {
    address.searchParams.delete("q");
  }
  history.replaceState(null, "", address);
});
new MutationObserver(apply).observe(list, { attributeFilter: ["data-words"], childList: true, subtree: true });
apply();
