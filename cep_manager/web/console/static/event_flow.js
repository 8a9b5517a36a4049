// The page of the event flow: asks for the graph of the tenant every two seconds.

import { html } from "./elements.js";
import { GraphView } from "./graph_view.js";
import { short } from "./numbers.js";
import { ask, repeat } from "./refresh.js";

const area = document.getElementById("flow");

const TELL = {
  where: (node) => (node.state === "failing" && node.kind !== "plan" ? `fails · ${node.kind} of ${node.plan}` : node.kind === "plan" ? node.words : node.kind === "stream" ? `${node.words} · ${node.attributes.length} ${node.attributes.length === 1 ? "attribute" : "attributes"}` : `${node.kind} of ${node.plan}`),
  metrics: (node) => {
    if (node.kind === "plan") {
      return `${short(node.events_per_second)}/s in · ${short(node.emitted_per_second)}/s out`;
    }
    if (node.waiting) {
      return `${short(node.waiting)} wait`;
    }
    return node.kind === "stream" ? `${short(node.events)} · ${short(node.events_per_second)}/s` : node.words && `${node.words} mapping`;
  },
  facts: factsOf,
  edge: (edge) => (edge.events_per_second ? [[`${short(edge.events_per_second)}/s`, "quiet"]] : []),
};

const view = new GraphView(area, document.getElementById("details"), "Event flow", TELL);
let shown = false;

function factsOf(node) {
  const facts = [["Kind", node.kind === "stream" ? `${node.words} event stream` : node.kind]];
  if (node.plan) {
    facts.push(["Plan", planLink(node.plan)]);
  }
  if (node.kind === "plan") {
    facts.push(["State", node.words], ["Events in", String(node.events)], ["Delivered", String(node.emitted)], ["Wait for sinks", String(node.waiting)]);
  } else {
    facts.push(["Stream", node.stream]);
  }
  if (node.kind === "sink") {
    facts.push(["Delivered", String(node.events)], ["Waiting", String(node.waiting)]);
  }
  if (node.problem) {
    facts.push(["Problem", node.problem]);
  }
  if (node.since_ms) {
    facts.push(["Since", new Date(node.since_ms).toLocaleString()]);
  }
  if (node.kind === "stream") {
    facts.push(["Events", String(node.events)], ...node.attributes.map(([name, type], at) => [at ? "" : "Attributes", `${name} ${type}`]));
  }
  return facts;
}

function planLink(name) {
  const address = new URL(area.dataset.plan, location.href);
  address.pathname += `/${encodeURIComponent(name)}`;
  const link = html("a", "", name);
  link.href = address;
  return link;
}

async function refresh() {
  const answer = await ask(area.dataset.source);
  if (answer === null) {
    return;
  }
  const found = await answer.json();
  if (!answer.ok) {
    if (!shown) {
      view.say(found.message);
    }
    return;
  }
  shown = found.nodes.length > 0;
  if (shown) {
    view.show(found);
  } else {
    view.say("No plan is deployed, so nothing flows yet.");
  }
}

repeat(refresh, Number(area.dataset.everyMs), { atOnce: true });
