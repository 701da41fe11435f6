// Asks for /peers.json each second, and renews the parts of the page that have changed.
import { charts } from "./charts.js";
import { element } from "./element.js";
import { graph, mark } from "./graph.js";

const at = (id) => document.getElementById(id);
let heard = "", shown = {};

function tiles(view) {
  return view.tiles.map(([name, value, remark]) => element("div", {},
    element("dt", {}, name), element("dd", {}, value, remark ? element("small", {}, remark) : null)));
}

function trouble(view) {
  return view.trouble.map(([why, names]) => element("li", {}, element("b", {}, names.join(", ")), `: ${why}`));
}

function table(view) {
  const head = ["rank", ...view.columns.map((one) => one.name)].map((name, number) =>
    element("th", { scope: "col", class: number && view.columns[number - 1].number ? "number" : "" }, name));
  const rows = view.peers.map((peer, number) => element("tr", { class: peer.standing, "data-row": peer.name },
    element("th", { scope: "row" }, element("span", {}, mark(peer.standing), `${peer.rank ?? peer.name}`)),
    ...view.columns.map((one) => element("td", {
      class: [one.number ? "number" : one.name, one.cells[number] === "-" ? "none" : ""].join(" ").trim(),
      "data-label": one.name,
    }, one.cells[number]))));
  return [element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)];
}

/** Draw a part anew if what it shows has changed. */
function renew(id, value, draw) {
  const text = JSON.stringify(value);
  if (shown[id] === text) return;
  shown[id] = text;
  at(id).replaceChildren(...draw());
}

function show(view) {
  document.querySelector("h1").textContent = view.title;
  renew("tiles", view.tiles, () => tiles(view));
  renew("trouble", view.trouble, () => trouble(view));
  renew("graph", view.peers.map(({ history, ...rest }) => rest), () => graph(view.peers));
  renew("peers", [view.columns, view.peers.map((one) => [one.name, one.standing])], () => table(view));
  charts(at("charts"), view);
  say(view.news);
}

function say(words) {
  if (at("news").textContent === words) return;
  at("news").textContent = words;
  document.title = `${words} - ${document.querySelector("h1").textContent}`;
}

async function look() {
  const selects = !getSelection().isCollapsed; // a text that is being copied stays
  if (!document.hidden && !selects) {
    try {
      const answer = await fetch("peers.json", { cache: "no-store", signal: AbortSignal.timeout(10000) });
      const view = await answer.json();
      if (!answer.ok) throw new Error(view.error);
      show(view);
      heard = new Date().toLocaleTimeString();
      at("clock").textContent = `as of ${heard}`;
      document.body.classList.remove("stale");
    } catch (error) {
      document.body.classList.add("stale");
      at("clock").textContent = heard ? `no answer since ${heard}` : "no answer";
      say("no answer");
    }
  } else if (selects) at("clock").textContent = `as of ${heard}: held while text is selected`;
  setTimeout(look, 1000);
}
look();
