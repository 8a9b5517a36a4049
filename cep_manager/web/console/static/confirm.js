// Asks for confirmation in a dialog before a form does something that cannot be undone.
//
//   <form method="post" action="…" data-confirm="Workers accept no more events for it.">   the question's text
//     <button class="button danger" data-confirm="…">Restart</button>                        or a button's own
//   </form>
//
// The dialog's title and its button say what the form's button says. Scripts ask by `confirmed`.

/** True when the reader agrees: `title` is the question, `text` says what will happen, `action` is the button's label. */
export function confirmed({ title, text, action, danger = false }) {
  const dialog = document.createElement("dialog");
  dialog.className = "ask";
  dialog.setAttribute("aria-labelledby", "ask-title");
  dialog.setAttribute("aria-describedby", "ask-text");
  const heading = Object.assign(document.createElement("h2"), { id: "ask-title", textContent: title });
  const body = Object.assign(document.createElement("p"), { id: "ask-text", textContent: text });
  const form = Object.assign(document.createElement("form"), { method: "dialog", className: "row-of-actions end" });
  const cancel = Object.assign(document.createElement("button"), { className: "button", value: "", textContent: "Cancel" });
  const agree = Object.assign(document.createElement("button"), {
    className: danger ? "button danger solid" : "button primary",
    value: "yes",
    textContent: action,
  });
  form.append(cancel, agree);
  dialog.append(heading, body, form);
  document.body.append(dialog);
  dialog.showModal();
  cancel.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
  });
}

const agreed = new WeakSet();

document.addEventListener("submit", async (event) => {
  const { target: form, submitter } = event;
  const text = submitter?.dataset.confirm ?? form.dataset.confirm;
  if (!text || agreed.delete(form)) {
    return;
  }
  event.preventDefault();
  event.stopImmediatePropagation();
  const action = submitter?.textContent.trim().replace(/…$/, "") ?? "Continue";
  const title = submitter?.dataset.confirmTitle ?? form.dataset.confirmTitle ?? `${action}?`;
  if (await confirmed({ title, text, action, danger: submitter?.classList.contains("danger") })) {
    agreed.add(form);
    form.requestSubmit(submitter);
  }
}, { capture: true });
