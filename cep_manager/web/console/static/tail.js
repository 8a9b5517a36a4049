// Watches an event stream: by server-sent events, or by polling when no more connections for those are available.

import { html } from "./elements.js";
import { ask } from "./refresh.js";
import { timeElement } from "./times.js";

const MOST_ROWS = 200;
const LOOK_AGAIN_MS = 1000;

const form = document.getElementById("tail-form");
const rows = document.getElementById("tail-rows");
const watchButton = document.getElementById("tail-watch");
const value = document.getElementById("tail-value");
const attribute = document.getElementById("tail-attribute");
const operator = document.getElementById("tail-operator");
const attributes = JSON.parse(rows.dataset.attributes);
const timed = attributes.every(([name]) => name !== "_timestamp"); // an attribute of that name replaces it
let wanted = true; // until the user stops it
let source = null; // the server-sent events
let looking = 0; // counts up whenever polling must end

form.addEventListener("submit", (event) => {
  event.preventDefault();
  wanted = !watching();
  stop("Not watching");
  if (wanted) {
    watch();
  }
});
document.getElementById("tail-clear").addEventListener("click", () => rows.replaceChildren());
attribute.addEventListener("change", fitFilter);
for (const part of [attribute, operator, value]) {
  part.addEventListener("change", () => {
    if (wanted) {
      stop("Not watching");
      watch();
    }
  });
}
fitFilter();
watch();

function fitFilter() {
  const type = attribute.selectedOptions[0].dataset.type;
  operator.disabled = value.disabled = !type;
  for (const option of operator.options) {
    option.disabled = option.value === "contains" && type !== "string";
  }
  if (operator.selectedOptions[0].disabled) {
    operator.value = "eq";
  }
}

function watching() {
  return source !== null || watchButton.dataset.looking === "yes";
}

function address(base) {
  const found = new URL(base, location.href);
  if (attribute.value) {
    found.searchParams.set("attribute", attribute.value);
    found.searchParams.set("operator", operator.value);
    found.searchParams.set("value", value.value);
  }
  return found;
}

function watch() {
  const type = attribute.selectedOptions[0].dataset.type;
  if (type && type !== "string" && value.value.trim() === "") {
    tell("wait", `Enter a value to compare ${attribute.value} with`);
    return;
  }
  watchButton.textContent = "Stop";
  tell("busy", "Watching…");
  source = new EventSource(address(form.dataset.tail));
  source.addEventListener("message", (event) => show(JSON.parse(event.data)));
  source.addEventListener("ended", (event) => {
    const report = JSON.parse(event.data);
    show(report);
    stop(report.ended);
  });
  source.addEventListener("error", () => {
    // The reason of a failure is not available here; one ordinary request returns it, or continues by polling.
    source?.close();
    source = null;
    look();
  });
}

async function look() {
  looking += 1;
  const mine = looking;
  watchButton.dataset.looking = "yes";
  while (mine === looking) {
    const answer = await ask(address(form.dataset.look));
    if (mine !== looking) {
      return;
    }
    const told = answer && (await answer.json().catch(() => null));
    if (told !== null && answer.ok) {
      show(told);
    } else if (told?.code !== "tails-busy") {
      stop(told === null ? "No response from the manager" : told.message, "bad");
      return;
    } else {
      tell("wait", told.message);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  }
}

function stop(reason, tone = "idle") {
  source?.close();
  source = null;
  looking += 1;
  delete watchButton.dataset.looking;
  watchButton.textContent = "Watch";
  tell(tone, reason);
}

function show(report) {
  const filtered = report.matched === report.seen ? "" : `, ${report.matched.toLocaleString("en")} match`;
  const sampled = report.shown < report.matched ? `, ${report.shown.toLocaleString("en")} shown` : "";
  tell("good", `${report.seen.toLocaleString("en")} ${report.seen === 1 ? "event" : "events"} passed${filtered}${sampled}`);
  rows.prepend(...report.events.reverse().map(rowOf));
  while (rows.rows.length > MOST_ROWS) {
    rows.deleteRow(-1);
  }
  document.getElementById("tail-empty").hidden = rows.rows.length > 0;
}

function rowOf(event) {
  const time = timed ? [html("td", "nowrap", timeElement(event._timestamp))] : [];
  return html("tr", "", ...time, ...attributes.map(([name, type]) => cell(event[name], type)));
}

function cell(content, type) {
  if (content === null || content === undefined) {
    return html("td", "", html("span", "null", "null"));
  }
  const number = ["int", "long", "float", "double"].includes(type);
  return html("td", number ? "number" : "", typeof content === "string" ? content : JSON.stringify(content));
}

function tell(tone, text) {
  const told = document.getElementById("tail-told");
  told.className = `mark tone-${tone}`;
  told.textContent = text;
}
