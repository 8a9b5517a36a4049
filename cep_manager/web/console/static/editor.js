// The editor of plans: the form's text field becomes an editor that completes, checks while you type, shows what the plan would
// become and what changes, and tries it out. The form also works without this script.

import * as code from "./vendor/codemirror.js";
import { EditPreview } from "./edit_preview.js";
import { html } from "./elements.js";
import { PLANNED } from "./graph_texts.js";
import { GraphView } from "./graph_view.js";
import { ask, send } from "./refresh.js";
import { Helper } from "./siddhiql_completion.js";
import { LOOK, siddhiql } from "./siddhiql_mode.js";
import { makeTabs } from "./tabs.js";
import { TryOut } from "./try_out.js";

const CHECK_AFTER_MS = 350;

const form = document.getElementById("plan-form");
const field = document.getElementById("text");
const addresses = form.dataset;
const editPreview = new EditPreview();
const panels = Object.fromEntries(["problems", "flow", "query-plan", "operators", "try", "changes"].map((name) => [name, document.getElementById(`panel-${name}`)]));
let open = "problems";
let checked = null; // the last answer of validation, for the text `checkedText`
let checkedText = null;
let submitted = false;

const answer = await ask(addresses.language);
if (answer?.ok) {
  start(await answer.json());
}

function start(language) {
  const helper = new Helper(language);
  const mode = siddhiql([...language.keywords, ...language.units, ...language.units.map((unit) => `${unit}s`)], language.types);
  const view = makeEditor(helper, mode);
  const written = view.state.doc.toString();
  const flow = new GraphView(document.getElementById("flow"), document.getElementById("details"), "Planned topology", PLANNED);
  const tryOut = new TryOut(document.getElementById("panel-try"), () => view.state.doc.toString(), () => helper.streams());
  const text = () => view.state.doc.toString();
  const show = {
    problems: () => {},
    flow: () => showFlow(text(), flow),
    "query-plan": () => showFragment(text(), "query-plan", addresses.queryPlan, "The query plan is shown once the plan is valid."),
    operators: () => showFragment(text(), "operators", addresses.explanation, "The operators of its queries are shown once the plan is valid."),
    try: () => tryOut.opened(),
    changes: () => showChanges(text(), mode),
  };
  form.addEventListener("cep-checked", () => {
    tellProblems(view);
    show[open]();
  });
  makeTabs(document.getElementById("tabs"), (panel) => {
    open = panel.replace("panel-", "");
    show[open]();
  });
  form.addEventListener("submit", () => {
    submitted = true;
    field.value = text();
  });
  window.addEventListener("beforeunload", (event) => {
    if (!submitted && text() !== written) {
      event.preventDefault();
    }
  });
}

function makeEditor(helper, mode) {
  const host = document.getElementById("editor");
  const root = host.attachShadow({ mode: "open" }); // in a shadow root, the editor's styles need no exception in the content security policy
  const view = new code.EditorView({
    doc: field.value,
    root,
    parent: root,
    extensions: [
      code.lineNumbers(), code.highlightSpecialChars(), code.history(), code.drawSelection(), code.highlightActiveLine(),
      code.bracketMatching(), code.closeBrackets(), code.highlightSelectionMatches(), code.search({ top: true }), mode, LOOK,
      code.autocompletion({ override: [(context) => helper.complete(context)], icons: false }),
      code.hoverTooltip((at, position) => {
        const help = helper.helpAt(at.state, position);
        return help && { pos: help.from, end: help.to, above: true, create: () => ({ dom: help.dom }) };
      }),
      code.linter((at) => check(at.state.doc, helper), { delay: CHECK_AFTER_MS }), code.lintGutter(),
      code.EditorView.contentAttributes.of({ "aria-label": "Execution plan in SiddhiQL", "aria-describedby": "verdict", tabindex: "0", spellcheck: "false" }),
      code.EditorView.theme({ "&": { height: "100%" } }), code.EditorView.domEventHandlers({ beforeinput: typeOverLines }),
      code.keymap.of([...code.closeBracketsKeymap, ...code.completionKeymap, ...code.lintKeymap, ...code.searchKeymap, ...code.historyKeymap, ...code.defaultKeymap]),
    ],
  });
  for (const part of document.querySelectorAll("[data-with-script]")) {
    part.hidden = false;
  }
  for (const part of document.querySelectorAll("[data-without-script]")) {
    part.hidden = true;
  }
  field.required = false;
  document.querySelector('label[for="text"]').addEventListener("click", () => view.focus());
  code.forceLinting(view);
  return view;
}

/**
 * Replaces several lines with what is typed. Left to Chrome, it would style the resulting line, which the content security
 * policy refuses with an error.
 */
function typeOverLines({ inputType, data }, view) {
  const { doc, selection } = view.state;
  const { from, to } = selection.main;
  const isMine = inputType === "insertText" && data !== null && !view.composing && selection.ranges.length === 1;
  if (!isMine || to <= doc.lineAt(from).to) {
    return false;
  }
  const typed = () => view.state.update(view.state.replaceSelection(data), { userEvent: "input.type", scrollIntoView: true });
  if (!view.state.facet(code.EditorView.inputHandler).some((handle) => handle(view, from, to, data, typed))) {
    view.dispatch(typed());
  }
  return true;
}

// ---- checking -----------------------------------------------------------------------------------------------------------

/** Validates the text and passes the result to the rest of the page. */
async function check(doc, helper) {
  const text = doc.toString();
  const asked = await send(addresses.validate, text);
  if (!asked?.ok) {
    verdict("warn", asked ? (await asked.json()).message : "not checked: no response from the manager");
    return [];
  }
  const found = await asked.json();
  helper.setScope(found.scope, found.valid);
  [checked, checkedText] = [found, text];
  form.dispatchEvent(new Event("cep-checked"));
  return [...found.problems.map((one) => diagnostic(doc, one, "error")), ...found.warnings.map((one) => diagnostic(doc, one, "warning"))];
}

function diagnostic(doc, problem, severity) {
  const { from, to } = rangeOf(doc, problem);
  const message = problem.hint ? `${problem.message}\n${problem.hint}` : problem.message;
  return { from, to, severity, message, source: problem.code };
}

/** The place of a problem; lines and columns count from 1 and columns count characters, the end is exclusive. */
function rangeOf(doc, problem) {
  if (!problem.line) {
    return { from: 0, to: doc.line(1).to };
  }
  const from = offset(doc, problem.line, problem.column);
  const to = offset(doc, problem.end_line || problem.line, problem.end_column || problem.column);
  return to > from ? { from, to } : { from: Math.max(0, Math.min(from, doc.length - 1)), to: Math.min(from + 1, doc.length) };
}

function offset(doc, line, column) {
  const at = doc.line(Math.min(line, doc.lines));
  const before = Array.from(at.text).slice(0, column - 1).join("");
  return Math.min(at.from + before.length, at.to);
}

function tellProblems(view) {
  const errors = checked.problems.length;
  const warnings = checked.warnings.length;
  const counted = [count(errors, "problem"), count(warnings, "warning")].filter(Boolean).join(", ");
  verdict(errors ? "bad" : warnings ? "wait" : "good", errors ? counted : `${checked.plan} can be deployed${warnings ? ` · ${counted}` : ""}`);
  document.getElementById("tab-problems").textContent = errors + warnings ? `Problems (${errors + warnings})` : "Problems";
  const items = [...checked.problems.map((one) => problemItem(view, one, "bad")), ...checked.warnings.map((one) => problemItem(view, one, "wait"))];
  panels.problems.replaceChildren(items.length ? html("ol", "problems", ...items) : html("p", "meta none", "No problems found."));
}

function problemItem(view, problem, tone) {
  const where = problem.line ? `Line ${problem.line}, column ${problem.column}` : "The whole plan";
  const go = html("button", "go", where);
  go.type = "button";
  go.addEventListener("click", () => {
    const { from, to } = rangeOf(view.state.doc, problem);
    view.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true });
    view.focus();
  });
  const item = html("li", `edge-${tone}`, html("p", "", go, " ", html("strong", "", problem.message)));
  if (problem.hint) {
    item.append(html("p", "hint", problem.hint));
  }
  return item;
}

function verdict(tone, text) {
  const told = document.getElementById("verdict");
  told.className = `verdict mark tone-${tone}`;
  told.textContent = text;
}

function count(number, what) {
  return number ? `${number} ${what}${number === 1 ? "" : "s"}` : "";
}

// ---- what it would become ---------------------------------------------------------------------------------------------------

async function showFlow(text, flow) {
  if (text !== checkedText) {
    return; // it is shown when the text has been checked
  }
  const previewed = checked.valid ? await send(addresses.preview, text) : null;
  if (previewed?.ok) {
    const { graph } = await previewed.json();
    flow.show({ ...graph, nodes: graph.nodes.map(({ busy, ...node }) => node) });
  } else {
    flow.say(checked.valid ? "The flow cannot be shown now." : "The flow is shown once the plan is valid.");
  }
}

async function showFragment(text, panel, address, otherwise) {
  if (text !== checkedText) {
    return;
  }
  const shown = checked.valid ? await send(address, text) : null;
  if (shown) {
    panels[panel].innerHTML = await shown.text();
  } else {
    panels[panel].replaceChildren(html("p", "graph-message", otherwise));
  }
}

// ---- what it changes ----------------------------------------------------------------------------------------------------------

async function showChanges(text, mode) {
  const name = addresses.edited || checked?.plan;
  const say = (words) => panels.changes.replaceChildren(html("p", "graph-message", words));
  if (!name) {
    say("The plan has no name yet.");
    return;
  }
  const listed = await ask(addresses.plans);
  const known = listed?.ok ? (await listed.json()).plans.some(({ plan }) => plan === name) : null;
  if (known === false) {
    say(`No plan named ${name} is deployed: all of this is new.`);
    return;
  }
  const deployed = known && (await ask(planAddress(name)));
  if (!deployed?.ok) {
    say(`Cannot read the deployed text of ${name} now.`);
    return;
  }
  const before = (await deployed.json()).text;
  if (before === text) {
    say(`Same text as the deployed plan ${name}.`);
    return;
  }
  const host = html("div", "merge");
  const root = host.attachShadow({ mode: "open" });
  const side = (label) => [code.lineNumbers(), mode, LOOK, code.EditorState.readOnly.of(true), code.EditorView.editable.of(false), code.EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" })];
  const heads = html("div", "merge-heads", html("p", "", "Deployed"), html("p", "", "This text"));
  const state = html("section", "edit-state");
  state.setAttribute("role", "status");
  panels.changes.replaceChildren(state, heads, host);
  if (text === checkedText && checked.valid) {
    editPreview.show(state, planAddress(name, "/edit-preview"), text);
  } else if (text === checkedText) {
    state.replaceChildren(html("p", "meta", "The effect on the state is shown once the plan is valid."));
  }
  new code.MergeView({ a: { doc: before, extensions: side("Deployed text") }, b: { doc: text, extensions: side("This text") }, parent: root, root, gutter: true, collapseUnchanged: { margin: 3, minSize: 6 } });
}

function planAddress(name, what = "") {
  const address = new URL(addresses.plans, location.href);
  address.pathname += `/${encodeURIComponent(name)}${what}`;
  return address;
}
