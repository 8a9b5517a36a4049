// Creates elements of the page; text is inserted as text, never as HTML.

/** An element `name` of class `className` with `children`, which are nodes or texts. */
export function html(name, className, ...children) {
  const made = document.createElement(name);
  if (className) {
    made.className = className;
  }
  made.append(...children);
  return made;
}

/** A table with `heads` and `rows`, each a list of texts or nodes; columns whose number is in `numbers` are right-aligned. */
export function table(heads, rows, numbers = []) {
  const cell = (name, content, at) => html(name, numbers.includes(at) ? "number" : "", content);
  const head = html("thead", "", html("tr", "", ...heads.map((text, at) => cell("th", text, at))));
  const body = html("tbody", "", ...rows.map((row) => html("tr", "", ...row.map((content, at) => cell("td", content, at)))));
  return html("div", "scroll", html("table", "", head, body));
}
