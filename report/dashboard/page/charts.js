// Charts over rounds, drawn by uPlot: a line a peer; where these are many, faint lines and their median.
import { element } from "./element.js";

const MOST = 200; // rounds that are drawn
const FEW = 8; // the most peers whose lines have colors of their own
const NO_DISAGREEMENT = "Not measured: no mix yet, or bodies travel as sums or masks, or privacy keeps it here.";
const CHARTS = [
  { figure: "accuracy", title: "Accuracy", note: "Of each peer's model on its own test data, after the round's mixing.",
    empty: "These peers measure no accuracy and no test loss." },
  { figure: "disagreement", title: "Disagreement", note: "How far a peer's body is from its mix, relative to the mix.",
    empty: NO_DISAGREEMENT, zero: true, wide: true },
  { figure: "round_seconds", title: "Round time, s", note: "Training, exchange and mixing.", empty: "None is timed.",
    zero: true },
  { figure: "missed", title: "Missed bodies", note: "Bodies of neighbors that mixes went without, over all peers.",
    empty: "None in these rounds.", zero: true, sum: true },
];

const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000]; // steps between ticks

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const written = (value) => {
  const size = Math.abs(value);
  if (size >= 0.1 && size < 100) return value.toFixed(3);
  return size && size < 0.001 ? value.toExponential(2) : value.toPrecision(3);
};
const tick = (value) => {
  const short = +value.toPrecision(6);
  return short && Math.abs(short) < 0.001 ? short.toExponential() : `${short}`;
};
const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};
const known = (values) => values.filter((one) => one !== null && one !== undefined);

/** The last rounds in order, and for each peer with a value in them its values by round. */
function columns(view, figure) {
  const peers = view.peers.filter((one) => known(one.history[figure] ?? []).length);
  const rounds = [...new Set(peers.flatMap((one) => one.history.round))].sort((a, b) => a - b).slice(-MOST);
  const found = peers.map((one) => {
    const values = new Map(one.history.round.map((round, number) => [round, one.history[figure][number]]));
    return [`${one.rank ?? one.name}`, rounds.map((round) => values.get(round) ?? null)];
  }).filter(([, line]) => known(line).length);
  return { names: found.map(([name]) => name), rounds, lines: found.map(([, line]) => line) };
}

/** The median of each round that three quarters of the peers have completed. */
const medians = ({ rounds, lines }) => rounds.map((_, at) => {
  const found = known(lines.map((line) => line[at]));
  return found.length >= 0.75 * lines.length ? median(found) : null;
});

function series(names, colors, sum) {
  const few = names.length <= FEW;
  const each = names.map((name, number) => ({
    label: name, spanGaps: true, points: { show: false }, stroke: few ? colors[number] : color("part"),
    width: few ? 1.7 : 0.8, alpha: few ? 1 : 0.3,
    ...(sum ? { paths: uPlot.paths.bars({ size: [0.75, 14] }), fill: color("idle"), stroke: color("idle") } : {}),
  }));
  return few ? each : [...each, { label: "median", stroke: color("ink"), width: 2.2, points: { show: false } }];
}

/** Ranks at the ends of few lines, moved apart where these are close. */
function endLabels(plot) {
  const lines = plot.series.slice(1);
  if (lines.length > FEW || lines.length < 2) return;
  const scale = devicePixelRatio, most = plot.bbox.top + plot.bbox.height;
  const ends = lines.map((one, number) => {
    const values = plot.data[number + 1], at = values.findLastIndex((value) => value !== null);
    return { one, y: plot.valToPos(values[at], "y", true) };
  }).sort((a, b) => a.y - b.y);
  ends.forEach((end, number) => { if (number) end.y = Math.max(end.y, ends[number - 1].y + 11 * scale); });
  ends.toReversed().reduce((low, end) => (end.y = Math.min(end.y, low)) - 11 * scale, most);
  plot.ctx.font = `600 ${10 * scale}px system-ui, sans-serif`;
  plot.ctx.textAlign = "left";
  plot.ctx.textBaseline = "middle";
  for (const { one, y } of ends) {
    plot.ctx.fillStyle = one.stroke();
    plot.ctx.fillText(one.label, plot.bbox.left + plot.bbox.width + 5 * scale, y);
  }
}

function axes(whole) {
  const common = { stroke: color("soft"), font: "11px system-ui, sans-serif", ticks: { show: false } };
  return [
    { ...common, size: 26, grid: { show: false }, incrs: WHOLE, space: 60 },
    { ...common, size: 46, grid: { stroke: color("grid"), width: 1 }, ...(whole ? { incrs: WHOLE } : {}),
      values: (_, ticks) => ticks.map((one) => (one === null ? "" : tick(one))) },
  ];
}

class Chart {
  constructor(parent, { figure, title, note, empty, zero, sum, wide }) {
    Object.assign(this, { figure, title, empty, zero, sum, wide, key: "", plot: null });
    this.name = element("h3", {}, title);
    this.now = element("span", { class: "now" });
    this.box = element("div", { class: "plot", role: "img" });
    this.words = element("p", { class: "empty" });
    this.note = element("p", { class: "note" }, note);
    parent.append(element("section", { class: "card", "data-chart": figure },
      element("div", { class: "top" }, this.name, this.now), this.box, this.words, this.note));
    new ResizeObserver(() => this.plot?.setSize(this.size)).observe(this.box);
  }

  show(view) {
    let found = columns(view, this.figure);
    if (this.figure === "accuracy" && !found.names.length) {
      found = columns(view, "test_loss");
      this.name.textContent = found.names.length ? "Test loss" : this.title;
    }
    const total = known(found.lines.flat()).reduce((sum, one) => sum + one, 0);
    if (!found.names.length || (this.sum && !total)) return this.none(view);
    const newest = found.lines.map((line) => known(line).at(-1));
    this.summary = this.sum ? `${total} in all` : newest.length === 1 ? written(newest[0])
      : `median ${written(median(newest))}, ${written(Math.min(...newest))} to ${written(Math.max(...newest))}`;
    if (this.sum) found = { ...found, names: ["all"], lines: [found.rounds.map((_, at) =>
      known(found.lines.map((line) => line[at])).reduce((sum, one) => sum + one, 0))] };
    this.words.textContent = "";
    this.now.textContent = this.summary;
    this.box.setAttribute("aria-label", `${this.title} by round: ${this.summary}`);
    this.draw(found, found.names.length > FEW ? [...found.lines, medians(found)] : found.lines, view);
  }

  get size() { return { width: this.box.clientWidth, height: this.box.clientHeight }; }

  none(view) {
    this.plot?.destroy();
    this.plot = null;
    this.key = this.now.textContent = "";
    this.words.textContent = this.figure === "accuracy" && view.private
      ? "Not shown: of peers with privacy no figure of the data leaves their folders."
      : view.peers.some((one) => one.history.round?.length) ? this.empty : "No round is complete yet.";
  }

  draw({ names, rounds }, lines, view) {
    const values = known(lines.flat()), least = Math.min(...values.filter((one) => one > 0));
    const log = this.wide && Math.min(...values) >= 0 && Math.max(...values) > 30 * least;
    const places = view.peers.map((one) => `${one.rank ?? one.name}`);
    const colors = names.map((name) => color(`s${places.indexOf(name) % FEW}`));
    const shown = log ? lines.map((line) => line.map((one) => (one > 0 ? one : null))) : lines;
    const key = JSON.stringify([names, log, colors, color("soft")]);
    if (this.key === key) return this.plot.setData([rounds, ...shown]);
    this.plot?.destroy();
    this.key = key;
    const range = (_, low, high) => uPlot.rangeNum(this.zero ? Math.min(0, low) : low, high, 0.1, true);
    this.plot = new uPlot({
      ...this.size, padding: [10, 26, 0, 0], legend: { show: false }, cursor: { y: false, points: { size: 5 } },
      scales: { x: { time: false }, y: log ? { distr: 3 } : { range } },
      axes: axes(this.sum), series: [{}, ...series(names, colors, this.sum)],
      hooks: { draw: this.sum ? [] : [endLabels], setCursor: [(plot) => this.point(plot)] },
    }, [rounds, ...shown], this.box);
  }

  /** The values of the round under the pointer. */
  point(plot) {
    const at = plot.cursor.idx;
    if (at === null || at === undefined) { this.now.textContent = this.summary; return; }
    const found = plot.series.slice(1).map((one, number) => [one.label, plot.data[number + 1][at]])
      .filter(([label, value]) => value !== null && (plot.series.length <= FEW + 1 || label === "median"));
    const words = found.map(([label, value]) => (this.sum ? `${value}` : `${label}: ${written(value)}`)).join("  ");
    this.now.textContent = `round ${plot.data[0][at]}   ${words}`;
  }
}

const made = new Map();

/** Draw all charts of the view into their section. */
export function charts(parent, view) {
  for (const one of CHARTS) {
    if (!made.has(one.figure)) made.set(one.figure, new Chart(parent, one));
    made.get(one.figure).show(view);
  }
}
