// The live graph on a plan's page: asks for it once a second.

import { GraphView } from "./graph_view.js";
import { ask, repeat } from "./refresh.js";

const area = document.getElementById("graph");
const view = new GraphView(area, document.getElementById("details"), "Topology graph");
let shown = false;

async function refresh() {
  const answer = await ask(area.dataset.source);
  if (answer === null) {
    return;
  }
  if (answer.ok) {
    const graph = await answer.json();
    shown = graph.nodes.length > 0;
    if (shown) {
      view.show(graph);
    } else {
      view.say("There is no topology to show: the plan's stored text cannot be compiled.");
    }
  } else if (!shown || answer.status === 404) {
    view.say((await answer.json()).message);
  }
}

await refresh();
repeat(refresh, Number(area.dataset.everyMs));
