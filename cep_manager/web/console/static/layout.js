// A layered layout: nodes are placed in columns by their layer, edges that skip columns are led around the nodes between them.
// Pure: from nodes and links to places; the same input always gives the same picture.

export const NODE_WIDTH = 196;
export const NODE_HEIGHT = 84;
const LANE_HEIGHT = 26; // room for an edge that passes through a column
const COLUMN_GAP = 130;
const ROW_GAP = 30;
const SWEEPS = 12;
const MOST_LINKS = 1_000; // more are not untangled: instances that all feed each other cross in any order

/**
 * Places nodes and routes links.
 *
 * `nodes`: [{id, layer}], `links`: [{source, target}]. Returns {width, height, nodes: Map id → {x, y} (upper left),
 * links: [[{x, y}, …]] in the order of `links`, from the right side of the source to the left side of the target}.
 */
export function layOut(nodes, links) {
  const columns = columnsOf(nodes);
  const byId = new Map();
  columns.forEach((column, at) => column.forEach((cell) => byId.set(cell.id, Object.assign(cell, { column: at }))));
  const chains = links.map((link) => chainOf(link, byId, columns));
  untangle(columns, chains);
  const height = place(columns, chains);
  return {
    width: Math.max(1, columns.length) * (NODE_WIDTH + COLUMN_GAP) - COLUMN_GAP,
    height,
    nodes: new Map(nodes.map((node) => [node.id, { x: byId.get(node.id).x, y: byId.get(node.id).y }])),
    links: chains.map(routeOf),
  };
}

function columnsOf(nodes) {
  const layers = [...new Set(nodes.map((node) => node.layer))].sort((a, b) => a - b);
  return layers.map((layer) =>
    nodes.filter((node) => node.layer === layer).map((node) => ({ id: node.id, height: NODE_HEIGHT, lane: false })),
  );
}

/** The cells that a link visits, from source to target; lanes are added to the columns between. */
function chainOf(link, byId, columns) {
  const from = byId.get(link.source);
  const to = byId.get(link.target);
  const chain = [from];
  for (let at = from.column + 1; at < to.column; at += 1) {
    const lane = { id: `${link.source}→${link.target}@${at}`, height: LANE_HEIGHT, lane: true, column: at };
    columns[at].push(lane);
    chain.push(lane);
  }
  chain.push(to);
  return chain;
}

/** Orders each column by the positions of its neighbours, forward and backward, and keeps the order with the fewest crossings. */
function untangle(columns, chains) {
  if (chains.length > MOST_LINKS) {
    return;
  }
  const before = new Map();
  const after = new Map();
  for (const chain of chains) {
    for (let i = 1; i < chain.length; i += 1) {
      push(before, chain[i], chain[i - 1]);
      push(after, chain[i - 1], chain[i]);
    }
  }
  let best = columns.map((column) => [...column]);
  let fewest = crossings(columns, after);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const neighbours = sweep % 2 === 0 ? before : after;
    const order = sweep % 2 === 0 ? columns : [...columns].reverse();
    for (const column of order) {
      sortByNeighbours(column, neighbours, columns);
    }
    const count = crossings(columns, after);
    if (count < fewest) {
      fewest = count;
      best = columns.map((column) => [...column]);
    }
  }
  best.forEach((column, at) => columns[at].splice(0, column.length, ...column));
}

function sortByNeighbours(column, neighbours, columns) {
  const index = new Map();
  columns.forEach((other) => other.forEach((cell, at) => index.set(cell, (at + 0.5) / other.length)));
  const weight = new Map(
    column.map((cell) => {
      const places = (neighbours.get(cell) ?? []).map((other) => index.get(other));
      return [cell, places.length ? places.reduce((sum, at) => sum + at, 0) / places.length : index.get(cell)];
    }),
  );
  column.sort((a, b) => weight.get(a) - weight.get(b));
}

function crossings(columns, after) {
  let count = 0;
  for (let at = 0; at + 1 < columns.length; at += 1) {
    const place = new Map(columns[at + 1].map((cell, row) => [cell, row]));
    const ends = columns[at].map((cell) => (after.get(cell) ?? []).map((other) => place.get(other)).filter((row) => row !== undefined));
    for (let upper = 0; upper < ends.length; upper += 1) {
      for (let lower = upper + 1; lower < ends.length; lower += 1) {
        for (const a of ends[upper]) {
          count += ends[lower].filter((b) => b < a).length;
        }
      }
    }
  }
  return count;
}

/** Gives every cell its place, columns centred on each other; returns the height of the whole. */
function place(columns) {
  const heights = columns.map((column) => column.reduce((sum, cell) => sum + cell.height + ROW_GAP, -ROW_GAP));
  const total = Math.max(NODE_HEIGHT, ...heights);
  columns.forEach((column, at) => {
    let y = (total - heights[at]) / 2;
    for (const cell of column) {
      cell.x = at * (NODE_WIDTH + COLUMN_GAP);
      cell.y = y;
      y += cell.height + ROW_GAP;
    }
  });
  return total;
}

function routeOf(chain) {
  const points = [];
  chain.forEach((cell, at) => {
    const y = cell.y + cell.height / 2;
    if (at > 0) {
      points.push({ x: cell.x, y });
    }
    if (at < chain.length - 1) {
      points.push({ x: cell.x + NODE_WIDTH, y });
    }
  });
  return points;
}

function push(map, key, value) {
  map.set(key, [...(map.get(key) ?? []), value]);
}
