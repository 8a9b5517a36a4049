// Draws a graph of nodes and edges as SVG and shows a node's details when it is chosen. The layout is made anew only when
// nodes or edges come or go, so the picture keeps still while its numbers move.

import { html } from "./elements.js";
import { layOut, NODE_HEIGHT, NODE_WIDTH } from "./layout.js";

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = 14;
const THINNEST = 1.5;
const THICKEST = 6;
const LINE = 13; // from one line of an edge's text to the next
const BEND = 0.3; // the share of a link's way in which it leaves a fan

/** 950, 12.3 k, 4.1 M: three figures and a unit. */
export function short(number) {
  for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e4, " k"]]) {
    if (number >= size) {
      const divided = number / (unit === " k" ? 1e3 : size);
      return `${divided >= 100 ? divided.toFixed(0) : divided.toFixed(1)}${unit}`;
    }
  }
  return number < 10 && !Number.isInteger(number) ? number.toFixed(1) : Math.round(number).toLocaleString("en").replaceAll(",", "\u202f");
}

function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** Edges between the same two nodes are one link with a line of text for each stream. */
function linksOf(edges) {
  const links = new Map();
  for (const edge of edges) {
    const key = `${edge.source}→${edge.target}`;
    const link = links.get(key) ?? { source: edge.source, target: edge.target, streams: [] };
    link.streams.push(edge);
    links.set(key, link);
  }
  return [...links.values()];
}

/**
 * A graph in `area`, with details of the chosen node in `details`. `tell` has the texts of a kind of graph: `where(node)` and
 * `figures(node)` are a node's second and third line, `facts(node)` the pairs of its details, `edge(edge)` the lines of an
 * edge's text as pairs of text and class.
 */
export class GraphView {
  #area;
  #details;
  #tell;
  #shape = "";
  #chosen = null;
  #latest = null;
  #drawn = null;

  constructor(area, details, label, tell = TOPOLOGY) {
    this.#area = area;
    this.#details = details;
    this.label = label;
    this.#tell = tell;
  }

  /** Shows `graph`: {nodes: [{id, kind, label, layer, state, …}], edges: [{source, target, connected, …}]}. */
  show(graph) {
    this.#latest = graph;
    const links = linksOf(graph.edges);
    const now = JSON.stringify([graph.nodes.map((node) => [node.id, node.layer]), links.map((link) => [link.source, link.target])]);
    if (now !== this.#shape) {
      this.#draw(graph.nodes, links);
      this.#shape = now;
    }
    this.#fill(graph.nodes, links);
    if (this.#chosen !== null) {
      this.#tellDetails();
    }
  }

  /** Shows a text in place of a graph. */
  say(text) {
    this.#area.replaceChildren(html("p", "graph-message", text));
    this.#shape = "";
    this.#latest = null;
    this.#chosen = null;
    this.#details.hidden = true;
  }

  #draw(nodes, links) {
    const layout = layOut(nodes, links);
    const width = layout.width + 2 * MARGIN;
    const height = layout.height + 2 * MARGIN;
    const svg = element("svg", { viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`, width, height, role: "group", "aria-label": this.label });
    svg.append(arrowHead());
    const parts = { nodes: new Map(), links: [] };
    const labels = element("g");
    const fans = fansOf(nodes, links);
    links.forEach((link, at) => {
      const points = layout.links[at];
      const fan = Math.sign(fans.get(link.source).out - fans.get(link.target).in);
      const path = points.length > 2 ? curve(points) : fannedCurve(points, fan);
      const part = { edge: element("path", { class: "edge", d: path, "marker-end": "url(#arrow)" }), flow: element("path", { class: "flow", d: path }), label: element("text", { class: "label" }) };
      part.place = labelPlace(points, fan);
      svg.append(part.edge, part.flow);
      labels.append(part.label);
      parts.links.push(part);
    });
    for (const node of nodes) {
      const part = drawNode(node, layout.nodes.get(node.id), () => this.#choose(node.id));
      svg.append(part.group);
      parts.nodes.set(node.id, part);
    }
    svg.append(labels);
    const focused = document.activeElement?.dataset?.node;
    this.#area.replaceChildren(svg);
    if (focused) {
      parts.nodes.get(focused)?.group.focus({ preventScroll: true });
    }
    this.#drawn = parts;
  }

  #fill(nodes, links) {
    const rates = links.map((link) => link.streams.reduce((sum, edge) => sum + (edge.events_per_second ?? 0), 0));
    const fastest = Math.max(1, ...rates);
    links.forEach((link, at) => {
      const part = this.#drawn.links[at];
      const connected = link.streams.some((edge) => edge.connected);
      const thickness = THINNEST + (THICKEST - THINNEST) * Math.sqrt(rates[at] / fastest);
      part.edge.setAttribute("class", connected ? "edge" : "edge off");
      part.edge.setAttribute("stroke-width", thickness.toFixed(2));
      part.flow.setAttribute("stroke-width", Math.max(1, thickness / 2.5).toFixed(2));
      part.flow.setAttribute("visibility", connected && thickness > 3 ? "visible" : "hidden");
      labelLink(part, link.streams.flatMap(this.#tell.edge));
    });
    for (const node of nodes) {
      this.#fillNode(this.#drawn.nodes.get(node.id), node);
    }
  }

  #fillNode(part, node) {
    const where = this.#tell.where(node);
    const figures = this.#tell.figures(node);
    part.group.setAttribute("class", `node kind-${node.kind} ${node.state}${node.id === this.#chosen ? " chosen" : ""}`);
    part.title.textContent = cut(node.label, 20);
    part.sub.textContent = cut(where, 27);
    part.figures.textContent = figures;
    part.hint.textContent = `${node.label}: ${where}`;
    if (part.load) {
      part.load.setAttribute("width", ((NODE_WIDTH - 68) * node.busy).toFixed(1));
      part.share.textContent = node.state === "live" ? `${Math.round(node.busy * 100)} %` : "";
    }
    // The name has what is seen, in its order, so that who speaks it is understood.
    const seen = [part.title, part.sub, part.figures, part.share].map((text) => text.textContent).filter(Boolean);
    part.group.setAttribute("aria-label", `${node.kind} ${seen.join(" ")}`);
  }

  #choose(id) {
    this.#chosen = this.#chosen === id ? null : id;
    this.#details.hidden = this.#chosen === null;
    this.#fill(this.#latest.nodes, linksOf(this.#latest.edges));
    if (this.#chosen !== null) {
      this.#tellDetails();
    }
  }

  #tellDetails() {
    const node = this.#latest.nodes.find((one) => one.id === this.#chosen);
    if (!node) {
      this.#choose(this.#chosen);
      return;
    }
    const focused = this.#details.contains(document.activeElement);
    const close = html("button", "close", "Close");
    close.type = "button";
    close.addEventListener("click", () => {
      this.#drawn.nodes.get(node.id)?.group.focus({ preventScroll: true });
      this.#choose(node.id);
    });
    const pairs = this.#tell.facts(node).map(([name, value]) => html("div", "", html("dt", "", name), html("dd", "", value)));
    this.#details.replaceChildren(html("div", "details-head", html("h3", "", node.label), close), html("dl", "pairs", ...pairs));
    if (focused) {
      close.focus({ preventScroll: true });
    }
  }
}

function arrowHead() {
  const tip = element("path", { d: "M0 0 10 5 0 10z", class: "arrow" });
  const marker = element("marker", { id: "arrow", viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" }, tip);
  return element("defs", {}, marker);
}

function drawNode(node, at, choose) {
  const text = (className, y, x = 16) => element("text", { class: className, x, y });
  const part = {
    title: text("title", 22),
    sub: text("sub", 38),
    figures: text("figure", 58),
    load: element("rect", { class: "load", x: 16, y: 69, height: 5, rx: 2.5, width: 0 }),
    track: element("rect", { class: "track", x: 16, y: 69, height: 5, rx: 2.5, width: NODE_WIDTH - 68 }),
    share: element("text", { class: "sub", x: NODE_WIDTH - 12, y: 76, "text-anchor": "end" }),
    hint: element("title"),
  };
  const box = element("rect", { class: "box", width: NODE_WIDTH, height: NODE_HEIGHT, rx: 8 }, part.hint);
  const bar = element("path", { class: "bar", d: `M8 0h-0a8 8 0 0 0-8 8v${NODE_HEIGHT - 16}a8 8 0 0 0 8 8h-2a2 2 0 0 1-2-2v-${NODE_HEIGHT - 4}a2 2 0 0 1 2-2z` });
  part.group = element("g", { transform: `translate(${at.x} ${at.y})`, tabindex: 0, role: "button", "data-node": node.id }, box, bar, part.title, " ", part.sub, " ", part.figures, " ");
  if (node.busy === undefined || node.kind === "source" || node.kind === "sink") {
    part.load = null;
  } else {
    part.group.append(part.track, part.load, part.share);
  }
  part.group.addEventListener("click", choose);
  part.group.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose();
    }
  });
  return part;
}

/** The edge's text, one half above its line and the other below. */
function labelLink(part, lines) {
  const above = Math.ceil(lines.length / 2);
  const heightOf = (at) => (at < above ? part.place.y - 6 - (above - 1 - at) * LINE : part.place.y + LINE + 1 + (at - above) * LINE);
  part.label.replaceChildren(...lines.map(([text, className], at) => element("tspan", { x: part.place.x, y: heightOf(at), class: className }, text)));
}

function whereOf(node) {
  if (node.state === "expected") {
    return node.kind === "source" || node.kind === "sink" ? "no worker yet" : "not running";
  }
  const where = node.task >= 0 ? `${node.host} · task ${node.task}` : [node.host, ...node.connectors].join(" · ");
  return node.state === "silent" ? `silent · ${where}` : where;
}

function figuresOf(node) {
  if (node.kind === "source") {
    return `${short(node.emitted)} sent · ${short(node.emitted_per_second)}/s`;
  }
  if (node.kind === "sink") {
    return `${short(node.received)} got · ${short(node.received_per_second)}/s`;
  }
  return `${short(node.received)} in · ${short(node.emitted)} out`;
}

function cut(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

/** A smooth path through the points, level at each of them. */
function curve(points) {
  let path = `M${points[0].x} ${points[0].y}`;
  for (let i = 1; i < points.length; i += 1) {
    const [from, to] = [points[i - 1], points[i]];
    const half = (to.x - from.x) / 2;
    path += ` C${from.x + half} ${from.y} ${to.x - half} ${to.y} ${to.x} ${to.y}`;
  }
  return path;
}

/** How many links leave and reach each node. */
function fansOf(nodes, links) {
  const fans = new Map(nodes.map((node) => [node.id, { in: 0, out: 0 }]));
  for (const link of links) {
    fans.get(link.source).out += 1;
    fans.get(link.target).in += 1;
  }
  return fans;
}

/**
 * A path that has left the side where many links meet before its middle, and lies level on the other side, where its text
 * stands. `fan` is 1 when many leave the source, -1 when many reach the target, 0 when neither.
 */
function fannedCurve(points, fan) {
  const [from, to] = points;
  const bend = (to.x - from.x) * BEND;
  if (fan > 0) {
    return curve([from, { x: from.x + bend, y: to.y }, to]);
  }
  return fan < 0 ? curve([from, { x: to.x - bend, y: from.y }, to]) : curve(points);
}

/** Where a link's text stands: in its lane when it has one, else on the level part of its path. */
function labelPlace(points, fan) {
  if (points.length > 2) {
    return { x: (points[1].x + points[2].x) / 2, y: points[1].y };
  }
  const [from, to] = points;
  const level = ((to.x - from.x) * (1 - BEND)) / 2;
  if (fan > 0) {
    return { x: to.x - level, y: to.y };
  }
  return fan < 0 ? { x: from.x + level, y: from.y } : { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
}

// ---- what a topology's nodes and edges say ------------------------------------------------------------------------------

function factsOf(node) {
  const facts = [["Kind", node.kind], ["State", node.state === "expected" ? "not running" : node.state]];
  if (node.host) {
    facts.push(["Host", node.host], ["Process", String(node.process_id)]);
  }
  if (node.task >= 0) {
    facts.push(["Task", String(node.task)], ["Busy", `${(node.busy * 100).toFixed(1)} % of the time`]);
  }
  if (node.connectors.length) {
    facts.push(["Connectors", node.connectors.join(", ")]);
  }
  if (node.kind !== "source") {
    facts.push(["Received", counted(node.received, node.received_per_second)], ...streams(node.streams_received));
  }
  if (node.kind !== "sink") {
    facts.push(["Sent", counted(node.emitted, node.emitted_per_second)], ...streams(node.streams_emitted));
  }
  facts.push(["Waiting", `${exact(node.waiting)} events`]);
  if (node.dropped) {
    facts.push(["Dropped", `${exact(node.dropped)} events`]);
  }
  if (node.last_error) {
    facts.push(["Last error", node.last_error]);
  }
  return facts;
}

function streams(counts) {
  return counts.length > 1 ? counts.map((count) => ["", `${exact(count.events)} of ${count.stream}`]) : [];
}

function counted(events, rate) {
  return `${exact(events)} events, ${short(rate)}/s`;
}

function exact(number) {
  return number.toLocaleString("en").replaceAll(",", "\u202f");
}

function edgeLines(edge) {
  const untold = edge.events === null || (!edge.connected && edge.events === 0);
  const counted = untold ? [] : [[`${short(edge.events)} · ${short(edge.events_per_second ?? 0)}/s`, "quiet"]];
  return [[edge.stream, ""], ...counted];
}

const TOPOLOGY = { where: whereOf, figures: figuresOf, facts: factsOf, edge: edgeLines };

/** What nodes and edges say of a topology that does not run. */
export const PLANNED = {
  where: (node) => [node.kind, ...node.connectors].join(" · "),
  figures: () => "",
  facts: (node) => [["Kind", node.kind], ...(node.stream ? [["Stream", node.stream]] : []), ...(node.connectors.length ? [["Connectors", node.connectors.join(", ")]] : [])],
  edge: (edge) => [[edge.stream, ""]],
};
