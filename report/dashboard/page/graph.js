// The graph as SVG: peers on a circle, links by liveness, arrows from waiting peers to awaited ones.
import { element } from "./element.js";

const SIDE = 360, CENTER = SIDE / 2;
const MOST = 200; // peers that are drawn
const KINDS = {
  alive: "alive", unseen: "not met yet", suspect: "suspect", gone: "gone, with a goodbye", dead: "dead, silent",
};
const STANDINGS = {
  part: "takes part", idle: "runs, takes no part", away: "does not run or answer", ended: "has ended its rounds",
  unasked: "a member that is not asked itself",
};
const WORST = Object.keys(KINDS);

/** By both ends, how each sees the other; the worse view is the link's kind. */
function linksOf(peers) {
  const found = new Map();
  for (const peer of peers) {
    if (peer.rank === null) continue;
    for (const [other, [liveness, why]] of Object.entries(peer.links)) {
      const ends = [peer.rank, Number(other)].sort((a, b) => a - b);
      const link = found.get(ends.join("-")) ?? { ends, kind: "alive", words: [] };
      if (WORST.indexOf(liveness) > WORST.indexOf(link.kind)) link.kind = liveness;
      link.words.push(`rank ${peer.rank} sees ${other} ${liveness}${why ? ` (${why})` : ""}`);
      found.set(ends.join("-"), link);
    }
  }
  return [...found.values()];
}

/** Places of ranks, the first at the top; a peer at which all links end is in the middle. */
function layout(ranks, links) {
  const radius = Math.max(3.5, Math.min(15, 112 * Math.sin(Math.PI / Math.max(ranks.length, 2))));
  const small = ranks.length > 36, far = CENTER - radius - (small ? 21 : 4);
  const hub = ranks.length === 1 ? ranks[0] : ranks.find((rank) =>
    ranks.length > 3 && links.length === ranks.length - 1 && links.every((link) => link.ends.includes(rank)));
  const around = ranks.filter((rank) => rank !== hub);
  const places = new Map(hub === undefined ? [] : [[hub, [CENTER, CENTER]]]);
  around.forEach((rank, number) => {
    const angle = (2 * Math.PI * number) / around.length;
    places.set(rank, [CENTER + far * Math.sin(angle), CENTER - far * Math.cos(angle)]);
  });
  return { places, radius, small, far, apart: 2 * far * Math.sin(Math.PI / Math.max(around.length, 2)) };
}

/** The control point of a link's curve, which is bent inwards where it would touch a peer between its ends. */
function control(at, ends) {
  const [[a, b], [c, d]] = ends.map((rank) => at.places.get(rank));
  const x = (a + c) / 2 - CENTER, y = (b + d) / 2 - CENTER, far = Math.hypot(x, y);
  const most = at.far - 1.5 * at.radius - 1;
  const bent = far <= most || Math.hypot(c - a, d - b) < 1.5 * at.apart ? 1 : (2 * most - far) / far;
  return [CENTER + bent * x, CENTER + bent * y];
}

const point = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
const curve = (start, middle, end) => `M${point(start)}Q${point(middle)} ${point(end)}`;
const cross = (x, y, size) => element("path", {
  class: "cross", d: `M${point([x - size, y - size])}l${2 * size} ${2 * size}m0 ${-2 * size}l${-2 * size} ${2 * size}`,
});

/** The point so far from the start, in the direction of the end. */
function towards([a, b], [c, d], far) {
  const long = Math.hypot(c - a, d - b) || 1;
  return [a + ((c - a) * far) / long, b + ((d - b) * far) / long];
}

function link(at, one) {
  const [start, end] = one.ends.map((rank) => at.places.get(rank)), middle = control(at, one.ends);
  const half = (axis) => (start[axis] + 2 * middle[axis] + end[axis]) / 4;
  return element("g", { class: `link ${one.kind}`, "data-link": one.ends.join("-") },
    element("title", {}, one.words.join("; ")), element("path", { d: curve(start, middle, end) }),
    one.kind === "dead" ? cross(half(0), half(1), at.small ? 3 : 5) : null); // seen without its color
}

/** A bent arrow beside the link; that of the way back is on the other side. */
function arrow(at, from, to, why) {
  const [start, end] = [from, to].map((rank) => at.places.get(rank));
  const long = Math.hypot(end[0] - start[0], end[1] - start[1]) || 1, bend = Math.min(26, 0.2 * long) / long;
  const [x, y] = control(at, [from, to]);
  const middle = [x - bend * (end[1] - start[1]), y + bend * (end[0] - start[0])];
  const d = curve(towards(start, middle, at.radius + 1.5), middle, towards(end, middle, at.radius + 2.5));
  return element("g", { class: "wait", "data-wait": `${from}-${to}` },
    element("title", {}, `rank ${from} waits for rank ${to}${why ? `: ${why}` : ""}`),
    element("path", { d, "marker-end": "url(#arrowhead)" }));
}

/** A mark whose shape differs, not its color alone. */
function shape(standing, [x, y], radius) {
  if (standing !== "idle") return element("circle", { class: "shape", cx: x, cy: y, r: radius });
  const side = 1.8 * radius;
  return element("rect", { class: "shape", x: x - side / 2, y: y - side / 2, width: side, height: side });
}

function peer(at, one) {
  const place = at.places.get(one.rank);
  const outside = at.small && !["idle", "away"].includes(one.standing) && one.rank % Math.ceil(at.places.size / 36);
  const spot = !at.small ? place : towards(place, [CENTER, CENTER], -at.radius - 9.5);
  return element("g", { class: `peer ${one.standing}`, "data-rank": one.rank },
    element("title", {}, `rank ${one.rank}: ${one.words}`), shape(one.standing, place, at.radius),
    outside ? null : element("text", { x: spot[0], y: spot[1], class: at.small ? "outside" : "" }, `${one.rank}`));
}

/** The mark of a standing, for legend and table. */
export function mark(standing) {
  const attributes = { viewBox: "0 0 16 16", class: `mark ${standing}`, "aria-hidden": "true" };
  return element("svg", attributes, shape(standing, [8, 8], 6));
}

function sample(kind, ...content) {
  const attributes = { viewBox: "0 0 28 16", class: "sample", "aria-hidden": "true" };
  return element("svg", attributes, element("g", { class: kind }, ...content));
}

function legend(peers, links, waits) {
  const count = (list, test) => list.filter(test).length, found = [];
  for (const [name, words] of Object.entries(STANDINGS)) {
    const many = count(peers, (one) => one.standing === name);
    if (many) found.push([mark(name), `${words}: ${many}`]);
  }
  for (const [kind, words] of Object.entries(KINDS)) {
    const many = count(links, (one) => one.kind === kind);
    const line = element("path", { d: "M1 8L27 8" });
    if (many) found.push([sample(`link ${kind}`, line, kind === "dead" ? cross(14, 8, 4) : null), `${words}: ${many}`]);
  }
  if (waits) {
    const line = element("path", { d: "M1 8L25 8", "marker-end": "url(#arrowhead)" });
    found.push([sample("wait", line), `waits for: ${waits}`]);
  }
  return element("ul", { class: "legend" }, ...found.map(([picture, words]) => element("li", {}, picture, words)));
}

/** The drawing and its legend. */
export function graph(all) {
  const peers = [...new Map(all.filter((one) => one.rank !== null).map((one) => [one.rank, one])).values()];
  const drawn = peers.slice(0, MOST), ranks = drawn.map((one) => one.rank), within = new Set(ranks);
  const links = linksOf(drawn).filter((one) => one.ends.every((rank) => within.has(rank)));
  links.sort((one, other) => WORST.indexOf(one.kind) - WORST.indexOf(other.kind)); // the worst lie on top
  const waits = drawn.flatMap((one) => Object.entries(one.waits).map(([other, why]) => [one.rank, Number(other), why]))
    .filter(([, other]) => within.has(other));
  const at = layout(ranks, links);
  const head = element("marker", { id: "arrowhead", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8,
    markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" }, element("path", { d: "M0 0L8 4L0 8Z" }));
  const picture = element("svg", {
    viewBox: `0 0 ${SIDE} ${SIDE}`, class: `graph${links.length > 60 ? " many" : ""}`, role: "img",
    "aria-label": `Graph of ${ranks.length} peers and ${links.length} links; the table has all in words.`,
  },
    element("defs", {}, head), ...links.map((one) => link(at, one)),
    ...waits.map((one) => arrow(at, ...one)), ...drawn.map((one) => peer(at, one)));
  const found = [picture, legend(drawn, links, waits.length)];
  if (peers.length > MOST) {
    found.push(element("p", { class: "note" }, `The first ${MOST} of ${peers.length} peers are drawn.`));
  }
  return found;
}
