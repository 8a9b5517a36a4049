// Texts of the nodes and edges of a topology's graph.

import { short } from "./numbers.js";

function whereOf(node) {
  if (node.state === "expected") {
    return node.kind === "source" || node.kind === "sink" ? "no worker yet" : "not running";
  }
  const where = node.instances > 1 ? `${node.live} of ${node.instances} · ${node.host}` : placeOf(node);
  return node.state === "silent" || node.state === "failing" ? `${node.state} · ${where}` : where;
}

function placeOf(node) {
  return node.task >= 0 ? `${node.host} · task ${node.task}` : [node.host, ...node.connectors].join(" · ");
}

function metricsOf(node) {
  if (node.kind === "source") {
    return `${short(node.emitted)} sent · ${short(node.emitted_per_second)}/s`;
  }
  if (node.kind === "sink") {
    const waiting = node.waiting ? ` · ${short(node.waiting)} wait` : "";
    return `${short(node.received)} delivered · ${short(node.received_per_second)}/s${waiting}`;
  }
  return node.process_ms === null ? `${short(node.received)} in · ${short(node.emitted)} out` : `${latency(node.process_ms)} · ${short(node.received_per_second)}/s`;
}

/** `85 µs`, `4.25 ms`, `2.5 s`. */
function latency(milliseconds) {
  const [number, unit] = milliseconds >= 1000 ? [milliseconds / 1000, "s"] : milliseconds >= 1 ? [milliseconds, "ms"] : [milliseconds * 1000, "µs"];
  return `${Number(number.toPrecision(3))}\u202f${unit}`;
}

function factsOf(node) {
  const facts = [["Kind", node.kind], ["State", node.state === "expected" ? "not running" : node.state]];
  if (node.host) {
    facts.push(["Host", node.host], ["Process", String(node.process_id)]);
  }
  if (node.connectors.length) {
    facts.push(["Connectors", node.connectors.join(", ")]);
  }
  if (node.kind === "sink") {
    facts.push(["Delivered", counted(node.received, node.received_per_second)], ["Waiting", `${exact(node.waiting)} events`]);
  } else if (node.kind !== "source") {
    facts.push(["Received", counted(node.received, node.received_per_second)]);
  }
  if (node.state === "failing") {
    facts.push(["Problem", node.last_error]);
  }
  if (node.kind !== "sink") {
    facts.push(["Sent", counted(node.emitted, node.emitted_per_second)], ["Waiting", `${exact(node.waiting)} events`]);
  }
  return facts;
}

function counted(events, rate) {
  return `${exact(events)} events, ${short(rate)}/s`;
}

function exact(number) {
  return number.toLocaleString("en").replaceAll(",", "\u202f");
}

function edgeLines(edge, all) {
  const name = namesOf(edge);
  if (edge.events_per_second === null || (!edge.connected && edge.events === 0)) {
    return name;
  }
  const share = all ? ` · ${((100 * edge.events_per_second) / all).toFixed(0)} %` : "";
  return [...name, [`${short(edge.events_per_second)}/s${share}`, "quiet"]];
}

/** The stream and its grouping. */
function namesOf(edge) {
  return edge.grouping ? [[edge.stream, ""], [edge.grouping, "grouping"]] : [[edge.stream, ""]];
}

/** A topology that runs: stages are links to their pages, below that of the plan at `address`. */
export function topologyTexts(address) {
  const { pathname, search } = new URL(address, location.href);
  const href = (node) => (node.component ? `${pathname}/components/${encodeURIComponent(node.component)}${search}` : "");
  return { where: whereOf, metrics: metricsOf, facts: factsOf, edge: edgeLines, href };
}

/** Texts of the nodes and edges of a topology that does not run. */
export const PLANNED = {
  where: (node) => [node.kind, ...node.connectors].join(" · "),
  metrics: () => "",
  facts: (node) => [["Kind", node.kind], ...(node.stream ? [["Stream", node.stream]] : []), ...(node.connectors.length ? [["Connectors", node.connectors.join(", ")]] : [])],
  edge: namesOf,
};
