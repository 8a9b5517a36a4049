// Searches the list of plans while the user types: the manager filters, so that a thousand plans still fit on a page.

import { renew } from "./refresh.js";

const WAIT_MS = 200;
const form = document.getElementById("plan-filter");
const list = document.getElementById("plans");
let waiting = 0;

async function show() {
  const address = new URL(location.href);
  const fragment = new URL(list.dataset.refresh, location.href);
  for (const { name, value } of form.elements) {
    for (const { searchParams } of name ? [address, fragment] : []) {
      if (value) {
        searchParams.set(name, value);
      } else {
        searchParams.delete(name);
      }
    }
  }
  for (const { searchParams } of [address, fragment]) {
    searchParams.delete("page");
  }
  forget(address);
  history.replaceState(null, "", address);
  list.dataset.refresh = fragment.pathname + fragment.search;
  await renew(list);
}

/** The message about the last action is shown only once. */
function forget(address) {
  for (const name of ["notice", "plan", "plans"]) {
    address.searchParams.delete(name);
  }
}

form.querySelector("button").hidden = true;
form.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(show, WAIT_MS);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  show();
});
