// Tables with `data-sortable` and an id are sorted by the selected head with `data-sort`, up or down; a cell's
// `data-value` counts before its text. The order is kept through refreshes.

const chosen = new Map(); // by the table's id: {column, down}

function valueOf(row, column) {
  const cell = row.cells[column];
  const text = cell?.dataset.value ?? cell?.textContent.trim() ?? "";
  const number = Number(text.replace(/[\s,\u202f]/g, ""));
  return text !== "" && Number.isFinite(number) ? number : text;
}

function compare(one, other) {
  const numbers = typeof one === "number" && typeof other === "number";
  return numbers ? one - other : String(one).localeCompare(String(other), undefined, { numeric: true });
}

function sort(table) {
  const order = chosen.get(table.id);
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, at) => {
    if (!("sort" in head.dataset)) {
      return;
    }
    head.tabIndex = 0;
    if (order?.column === at) {
      head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    } else {
      head.removeAttribute("aria-sort");
    }
  });
  if (order) {
    const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row, order.column), row]);
    rows.sort(([one], [other]) => (order.down ? -1 : 1) * compare(one, other));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }
}

/** All sortable tables in `root` are in the order that was chosen for them. */
function sortAll(root) {
  root.querySelectorAll("table[data-sortable][id]").forEach(sort);
}

function choose(event) {
  const head = event.target.closest?.("th[data-sort]");
  const table = head?.closest("table[data-sortable][id]");
  if (!table || (event.type === "keydown" && !["Enter", " "].includes(event.key))) {
    return;
  }
  event.preventDefault();
  const before = chosen.get(table.id);
  const first = head.classList.contains("number"); // the largest first
  chosen.set(table.id, { column: head.cellIndex, down: before?.column === head.cellIndex ? !before.down : first });
  sort(table);
}

document.addEventListener("click", choose);
document.addEventListener("keydown", choose);
document.addEventListener("refreshing", (event) => sortAll(event.detail));
sortAll(document);
