// From a graph of stage instances to one of stages, so that hundreds of instances stay readable. Pure.

const MOST_INSTANCES = 40;

/** Returns whether a graph is easier to read by stages. */
export function isLarge(graph) {
  return graph.nodes.length > MOST_INSTANCES;
}

/** One node for each stage, and for each stream at the ends; edges between the same nodes and of one stream are one. */
export function byStage(graph) {
  const groups = new Map();
  const groupOf = new Map();
  for (const node of graph.nodes) {
    const id = node.component ? node.component : `${node.kind}:${node.stream}`;
    groupOf.set(node.id, id);
    groups.set(id, [...(groups.get(id) ?? []), node]);
  }
  const nodes = [...groups].map(([id, members]) => together(id, members));
  const links = new Map();
  for (const edge of graph.edges) {
    const [source, target] = [groupOf.get(edge.source), groupOf.get(edge.target)];
    const key = JSON.stringify([source, target, edge.stream]);
    links.set(key, joined(links.get(key), { ...edge, source, target }));
  }
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const edges = [...links.values()];
  return { ...graph, nodes, edges: edges.map((edge) => told(edge, byId, edges)) };
}

function together(id, members) {
  const [first] = members;
  const sum = (name) => members.reduce((total, node) => total + node[name], 0);
  const most = (name) => members.reduce((largest, node) => Math.max(largest, node[name]), 0);
  const live = members.filter((node) => node.state === "live").length;
  const hosts = [...new Set(members.map((node) => node.host).filter(Boolean))];
  return {
    ...first,
    id,
    label: first.component || first.label,
    state: ["failing", "silent"].find((state) => members.some((node) => node.state === state)) ?? (live ? "live" : "expected"),
    host: hosts.length > 1 ? `${hosts.length} hosts` : (hosts[0] ?? ""),
    instances: members.length,
    live,
    received: sum("received"),
    emitted: sum("emitted"),
    received_per_second: sum("received_per_second"),
    emitted_per_second: sum("emitted_per_second"),
    waiting: sum("waiting"),
    dropped: sum("dropped"),
    busy: most("busy"),
    capacity: most("capacity"),
    process_ms: members.reduce((slowest, node) => (node.process_ms === null ? slowest : Math.max(slowest ?? 0, node.process_ms)), null),
    streams_received: added(members.map((node) => node.streams_received)),
    streams_emitted: added(members.map((node) => node.streams_emitted)),
    last_error: members.map((node) => node.last_error).find(Boolean) ?? "",
  };
}

function added(lists) {
  const sums = new Map();
  for (const { stream, events } of lists.flat()) {
    sums.set(stream, (sums.get(stream) ?? 0) + events);
  }
  return [...sums].map(([stream, events]) => ({ stream, events }));
}

function joined(one, other) {
  if (!one) {
    return other;
  }
  const sum = (name) => (one[name] === null || other[name] === null ? null : one[name] + other[name]);
  return {
    ...one,
    connected: one.connected || other.connected,
    events: sum("events"),
    events_per_second: sum("events_per_second"),
    under_way: one.under_way + other.under_way,
    window: one.window + other.window,
  };
}

/** Counts that are known per stage but not per pair of instances: all of the stream at its target, or that of each of several sources. */
function told(edge, byId, edges) {
  if (edge.events !== null) {
    return edge;
  }
  const alone = !edges.some((other) => other !== edge && other.target === edge.target && other.stream === edge.stream);
  const node = byId.get(alone ? edge.target : edge.source);
  const [counts, rate] = alone ? [node.streams_received, node.received_per_second] : [node.streams_emitted, node.emitted_per_second];
  const events = counts.find((count) => count.stream === edge.stream)?.events ?? null;
  return { ...edge, events, events_per_second: counts.length === 1 ? rate : null };
}
