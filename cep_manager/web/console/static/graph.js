// The live graph on a plan's page, sent by the manager or polled every two seconds, and shown as selected in the page's toolbar.

import { html } from "./elements.js";
import { coloured } from "./graph_colours.js";
import { offer, svgText } from "./graph_export.js";
import { byStage, isLarge } from "./graph_stages.js";
import { topologyTexts } from "./graph_texts.js";
import { GraphView } from "./graph_view.js";
import { picture } from "./live.js";
import { ask, repeat } from "./refresh.js";

const area = document.getElementById("graph");
const tool = (name) => document.getElementById(`graph-${name}`);
const view = new GraphView(area, document.getElementById("details"), "Topology graph", topologyTexts(area.dataset.plan));
const hidden = new Set();
let latest = null;

async function refresh() {
  const sent = picture();
  if (sent !== null) {
    latest = whole(sent);
    show();
    return;
  }
  const answer = await ask(area.dataset.source);
  if (answer === null) {
    return;
  }
  if (answer.ok) {
    latest = await answer.json();
    show();
  } else if (latest === null || answer.status === 404) {
    view.say((await answer.json()).message);
  }
}

/** Converts pushed data to the form of polled data: in pushed data a member that is null was removed. */
function whole(sent) {
  return {
    ...sent,
    nodes: Object.values(sent.nodes).map((node) => ({ process_ms: null, ...node })),
    edges: Object.values(sent.edges).map((edge) => ({ events: null, events_per_second: null, ...edge })),
  };
}

function show() {
  if (latest === null) {
    return;
  }
  if (!latest.nodes.length) {
    view.say("No topology: the plan's stored text cannot be compiled.");
    return;
  }
  const grain = tool("grain").value || (isLarge(latest) ? "stages" : "instances");
  const graph = grain === "stages" ? byStage(latest) : latest;
  const colours = coloured(graph, tool("colour").value);
  view.show(graph, colours.nodes, hidden);
  tellLegend(colours);
  offerStreams(graph);
}

function tellLegend({ legend, title }) {
  const entries = legend.map(([className, mark, words]) => html("li", "", html("span", `swatch ${className}`, mark), words));
  const now = html("div", "", html("span", "meta", `${title}. `), html("ul", "", ...entries));
  const place = tool("legend");
  if (place.innerHTML !== now.innerHTML) {
    place.replaceChildren(...now.childNodes);
  }
}

function offerStreams(graph) {
  const place = tool("stream-list");
  const streams = [...new Set(graph.edges.map((edge) => edge.stream))].sort();
  const offered = [...place.querySelectorAll("input")].map((box) => box.value);
  if (JSON.stringify(streams) === JSON.stringify(offered)) {
    return;
  }
  place.replaceChildren(
    ...streams.map((stream) => {
      const box = Object.assign(document.createElement("input"), { type: "checkbox", value: stream, checked: !hidden.has(stream) });
      return html("label", "check", box, stream);
    }),
  );
}

tool("stream-list").addEventListener("change", ({ target }) => {
  if (target.checked) {
    hidden.delete(target.value);
  } else {
    hidden.add(target.value);
  }
  show();
});
for (const name of ["colour", "grain"]) {
  tool(name).value = sessionStorage.getItem(`graph-${name}`) ?? tool(name).value;
  tool(name).addEventListener("change", () => {
    sessionStorage.setItem(`graph-${name}`, tool(name).value);
    show();
  });
}
tool("in").addEventListener("click", () => view.viewport.larger());
tool("out").addEventListener("click", () => view.viewport.smaller());
tool("fit").addEventListener("click", () => view.viewport.fit());
tool("svg").addEventListener("click", () => {
  if (view.picture) {
    offer(svgText(view.picture.svg, view.picture.whole), `${area.dataset.name}.svg`, "image/svg+xml");
  }
});

repeat(refresh, Number(area.dataset.everyMs), { atOnce: true });
