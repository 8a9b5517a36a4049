// Draws a graph of nodes and edges as SVG; a chosen node shows its details, or is a link. The layout is made again only when
// nodes or edges come or go, so the picture keeps still while its numbers move.

import { html } from "./elements.js";
import { layOut, NODE_HEIGHT, NODE_WIDTH } from "./layout.js";
import { Viewport } from "./viewport.js";

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = 14;
const THINNEST = 1.5;
const THICKEST = 6;
const LINE = 13; // from one line of an edge's text to the next
const BEND = 0.3; // the share of a link's way in which it leaves a fan
const PANEL = 42; // the width of a node's coloured part, which bears its number
const MOST_FLOWS = 60; // with more links none of them moves
const MOST_LABELS = 400; // with more links no link has a text, as it would be unreadable

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
 * `metrics(node)` are a node's second and third line, `facts(node)` the pairs of its details, `edge(edge, all)` the lines of
 * an edge's text as pairs of text and class, `all` being the events per second of all edges. Where `tell` has `href(node)`,
 * nodes for which it is not empty are links. In an area of class `zoomable` the picture can be moved and made larger.
 */
export class GraphView {
  #area;
  #details;
  #tell;
  #shape = "";
  #chosen = null;
  #latest = null;
  #drawn = null;
  #colours = new Map();
  #hidden = new Set();

  constructor(area, details, label, tell) {
    this.#area = area;
    this.#details = details;
    this.label = label;
    this.#tell = tell;
    this.viewport = area.classList.contains("zoomable") ? new Viewport(area) : null;
  }

  /** The picture, and all of it that there is to see; null while there is none. */
  get picture() {
    return this.#drawn && this.#latest ? { svg: this.#area.querySelector("svg"), whole: this.#drawn.whole } : null;
  }

  /**
   * Shows `graph`: {nodes: [{id, kind, label, layer, state, …}], edges: [{source, target, connected, …}]}. `colours` has
   * {className, text, words} of nodes that are coloured, by id; edges of the streams in `hidden` are not shown.
   */
  show(graph, colours = new Map(), hidden = new Set()) {
    this.#latest = graph;
    this.#colours = colours;
    this.#hidden = hidden;
    const links = linksOf(graph.edges);
    const now = JSON.stringify([graph.nodes.map((node) => [node.id, node.layer, Boolean(this.#href(node))]), links.map((link) => [link.source, link.target])]);
    if (now !== this.#shape) {
      this.#draw(graph.nodes, links);
      this.#shape = now;
    }
    this.#fill(graph.nodes, links);
    if (this.#chosen !== null) {
      this.#tellDetails();
    }
  }

  /** Shows a text instead of a graph. */
  say(text) {
    this.#area.replaceChildren(html("p", "graph-message", text));
    this.#shape = "";
    this.#drawn = null;
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
    const parts = { nodes: new Map(), links: [], whole: { x: -MARGIN, y: -MARGIN, width, height } };
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
      const part = drawNode(node, layout.nodes.get(node.id), this.#href(node), () => this.#choose(node.id));
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
    this.viewport?.watch(svg, parts.whole);
  }

  #href(node) {
    return this.#tell.href?.(node) ?? "";
  }

  #fill(nodes, links) {
    const shown = links.map((link) => link.streams.filter((edge) => !this.#hidden.has(edge.stream)));
    const rates = shown.map((streams) => streams.reduce((sum, edge) => sum + (edge.events_per_second ?? 0), 0));
    const fastest = Math.max(1, ...rates);
    const all = rates.reduce((sum, rate) => sum + rate, 0);
    shown.forEach((streams, at) => {
      const part = this.#drawn.links[at];
      const connected = streams.some((edge) => edge.connected);
      const held = streams.some((edge) => edge.window && edge.under_way >= edge.window);
      const thickness = THINNEST + (THICKEST - THINNEST) * Math.sqrt(rates[at] / fastest);
      part.edge.setAttribute("class", `edge${connected ? "" : " off"}${held ? " held" : ""}${streams.length ? "" : " hidden"}`);
      part.edge.setAttribute("stroke-width", thickness.toFixed(2));
      part.flow.setAttribute("stroke-width", Math.max(1, thickness / 2.5).toFixed(2));
      const moves = connected && !held && streams.length > 0 && thickness > 3 && links.length <= MOST_FLOWS;
      part.flow.setAttribute("visibility", moves ? "visible" : "hidden");
      if (links.length > MOST_LABELS) {
        return;
      }
      labelLink(part, [...streams.flatMap((edge) => this.#tell.edge(edge, all)), ...(held ? [["▮▮ window full", "held"]] : [])]);
    });
    for (const node of nodes) {
      this.#fillNode(this.#drawn.nodes.get(node.id), node);
    }
  }

  #fillNode(part, node) {
    const where = this.#tell.where(node);
    const metrics = this.#tell.metrics(node);
    const colour = this.#colours.get(node.id);
    part.group.setAttribute("class", `node kind-${node.kind} ${node.state}${colour ? ` coloured ${colour.className}` : ""}${node.id === this.#chosen ? " chosen" : ""}`);
    part.place(colour ? PANEL + 8 : 14);
    part.number.textContent = colour?.text ?? "";
    fit(part.title, node.label, part.width);
    fit(part.sub, where, part.width);
    part.metrics.textContent = metrics;
    part.hint.textContent = [`${node.label}: ${where}`, colour?.words, node.last_error && `last error: ${node.last_error}`].filter(Boolean).join("\n");
    if (part.load) {
      part.load.setAttribute("width", (part.room * node.busy).toFixed(1));
      part.share.textContent = node.state === "live" ? `${Math.round(node.busy * 100)} %` : "";
    }
    // The accessible name has the visible text in its order, as speech control needs.
    const seen = [part.number, part.title, part.sub, part.metrics, part.share].map((text) => text.textContent).filter(Boolean);
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

function drawNode(node, at, href, choose) {
  const text = (className, y) => element("text", { class: className, y });
  const part = {
    number: element("text", { class: "number", x: PANEL / 2, y: NODE_HEIGHT / 2 + 5, "text-anchor": "middle" }),
    title: text("title", 22),
    sub: text("sub", 38),
    metrics: text("figure", 58),
    load: element("rect", { class: "load", y: 69, height: 5, rx: 2.5, width: 0 }),
    track: element("rect", { class: "track", y: 69, height: 5, rx: 2.5 }),
    share: element("text", { class: "sub", x: NODE_WIDTH - 12, y: 76, "text-anchor": "end" }),
    hint: element("title"),
  };
  const box = element("rect", { class: "box", width: NODE_WIDTH, height: NODE_HEIGHT, rx: 8 }, part.hint);
  const bar = element("path", { class: "bar", d: leftPart(6) });
  const panel = element("path", { class: "panel", d: leftPart(PANEL) });
  const role = href ? { href } : { role: "button", tabindex: 0 };
  part.group = element(href ? "a" : "g", { transform: `translate(${at.x} ${at.y})`, "data-node": node.id, ...role }, box, bar, panel, part.number, " ", part.title, " ", part.sub, " ", part.metrics, " ");
  if (node.busy === undefined || node.kind === "source" || node.kind === "sink") {
    part.load = null;
  } else {
    part.group.append(part.track, part.load, part.share);
  }
  part.place = (x) => {
    part.room = NODE_WIDTH - x - 50;
    part.width = NODE_WIDTH - x - 8;
    part.track.setAttribute("width", part.room);
    [part.title, part.sub, part.metrics, part.track, part.load].forEach((one) => one?.setAttribute("x", x));
  };
  if (!href) {
    part.group.addEventListener("click", choose);
    part.group.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        choose();
      }
    });
  }
  return part;
}

/** The left `width` of a node's box, with its round corners. */
function leftPart(width) {
  return `M8 0H${width}V${NODE_HEIGHT}H8a8 8 0 0 1-8-8V8a8 8 0 0 1 8-8z`;
}

/** The edge's text, one half above its line and the other below. */
function labelLink(part, lines) {
  const above = Math.ceil(lines.length / 2);
  const heightOf = (at) => (at < above ? part.place.y - 6 - (above - 1 - at) * LINE : part.place.y + LINE + 1 + (at - above) * LINE);
  part.label.replaceChildren(...lines.map(([text, className], at) => element("tspan", { x: part.place.x, y: heightOf(at), class: className }, text)));
}

const fitted = new WeakMap();

/** Shows of `text` what has room in `width`, with an ellipsis behind it when that is not all; measured only when either
 * has changed, and only while the element is seen, as a hidden one has no width. */
function fit(shown, text, width) {
  const asked = `${width} ${text}`;
  if (fitted.get(shown) === asked) {
    return;
  }
  shown.textContent = text;
  const length = shown.getComputedTextLength();
  if (length > width) {
    let kept = Math.ceil((text.length * width) / length);
    do {
      kept -= 1;
      shown.textContent = `${text.slice(0, kept).trimEnd()}…`;
    } while (kept > 1 && shown.getComputedTextLength() > width);
  }
  if (length > 0) {
    fitted.set(shown, asked);
  }
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

/** Position of a link's text: in its lane if it has one, else on the horizontal part of its path. */
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
