// The colours of a topology's graph, by capacity, back-pressure or host: a step or a place for each node, its number, and
// the legend. Pure.

const CAPACITY = [0.2, 0.4, 0.6, 0.8];
const PRESSURE = [0.1, 0.5];
const HOSTS = 8;

/** For each node of a stage {className, text, words} by its id; `legend` is [className, mark, words] of each colour. */
export function coloured(graph, by) {
  if (by === "host") {
    return byHost(graph);
  }
  return by === "pressure" ? byPressure(graph) : byCapacity(graph);
}

function stagesOf(graph) {
  return graph.nodes.filter((node) => node.component && node.state !== "expected");
}

function byCapacity(graph) {
  const nodes = new Map(
    stagesOf(graph).filter(({ kind }) => kind === "processor" || kind === "publisher").map((node) => {
      const step = CAPACITY.filter((end) => node.capacity >= end).length;
      return [node.id, { className: `step-${step}`, text: node.capacity.toFixed(2), words: `capacity ${node.capacity.toFixed(3)}` }];
    }),
  );
  const ends = [0, ...CAPACITY, 1];
  const legend = ends.slice(0, -1).map((from, at) => [`step-${at}`, "", `${from.toFixed(1)} – ${ends[at + 1].toFixed(1)}`]);
  return { nodes, legend, title: "Capacity: share of the last 10 minutes spent working" };
}

function byPressure(graph) {
  const shares = pressures(graph);
  const nodes = new Map(
    stagesOf(graph).map((node) => {
      const share = shares.get(node.id) ?? 0;
      const step = PRESSURE.filter((end) => share > end).length * 2;
      return [node.id, { className: `step-${step}`, text: `${Math.round(share * 100)}%`, words: `back-pressure ${Math.round(share * 100)} %` }];
    }),
  );
  const legend = [
    ["step-0", "", "OK: at most 10 %"],
    ["step-2", "", "low: at most 50 %"],
    ["step-4", "", "high: more than 50 %"],
  ];
  return { nodes, legend, title: "Back-pressure: share of the window that is in use at the ends, or waits in the stage" };
}

/** At the ends how full the fullest window is; between them how much of all windows of the way in waits in the stage. */
export function pressures(graph) {
  const shares = new Map();
  const windows = new Map();
  for (const edge of graph.edges.filter((one) => one.window)) {
    for (const id of [edge.source, edge.target]) {
      shares.set(id, Math.max(shares.get(id) ?? 0, Math.min(1, edge.under_way / edge.window)));
    }
    windows.set(`${edge.source} ${edge.stream}`, edge.window);
  }
  const sources = new Set(graph.nodes.filter((node) => node.kind === "source").map((node) => node.id));
  const inflow = [...windows].filter(([key]) => [...sources].some((id) => key.startsWith(`${id} `))).reduce((sum, [, rows]) => sum + rows, 0);
  for (const node of graph.nodes.filter((one) => one.kind === "processor")) {
    shares.set(node.id, inflow ? Math.min(1, node.waiting / inflow) : 0);
  }
  return shares;
}

function byHost(graph) {
  const hosts = [...new Set(stagesOf(graph).map((node) => node.host))].sort();
  const letter = (host) => String.fromCharCode(65 + (hosts.indexOf(host) % 26));
  const nodes = new Map(
    stagesOf(graph).map((node) => [node.id, { className: `host-${hosts.indexOf(node.host) % HOSTS}`, text: letter(node.host), words: `host ${node.host}` }]),
  );
  const legend = hosts.map((host, at) => [`host-${at % HOSTS}`, letter(host), host]);
  return { nodes, legend, title: "Host" };
}
