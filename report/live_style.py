"""Style sheet and script of the live page; the script fetches the view each second and swaps what has changed."""

STYLE = """
:root { color-scheme: light dark;
  --bg: #ffffff; --card: #f6f7f8; --ink: #1a1a1a; --soft: #565c62; --line: #d3d7da; --grid: #e1e4e7; --link: #00558b;
  --part: #0072b2; --idle: #b34700; --away: #6b7075; --ended: #00795a; --on: #ffffff;
  --alive: #6488a5; --suspect: #b34700; --gone: #6b7075; --dead: #a8003b; --unseen: #848b91; --wait: #8a3a91;
  --s0: #0072b2; --s1: #bd4a00; --s2: #00795a; --s3: #a83f7e; --s4: #1a1a1a; --s5: #3683b8; --s6: #96660a;
  --s7: #74797e; }
@media (prefers-color-scheme: dark) { :root {
  --bg: #121517; --card: #1b1f23; --ink: #e9ebed; --soft: #a9b0b7; --line: #3a4147; --grid: #2c3237; --link: #7cc0f0;
  --part: #3d9bdc; --idle: #f2964b; --away: #969da4; --ended: #2fb98f; --on: #101315;
  --alive: #55809f; --suspect: #f2964b; --gone: #969da4; --dead: #ff6f91; --unseen: #666e75; --wait: #d596dd;
  --s0: #56b4e9; --s1: #ff8f4d; --s2: #2fc79a; --s3: #e39ac4; --s4: #e9ebed; --s5: #9db4ff; --s6: #e0b04a;
  --s7: #9aa1a8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem 1.5rem 2rem; max-width: 90rem; background: var(--bg); color: var(--ink);
  font: 0.95rem/1.45 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
header { display: flex; flex-wrap: wrap; align-items: baseline; justify-content: space-between; gap: 0.2rem 1.5rem; }
h1 { font-size: 1.3rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 0 0 0.5rem; }
h3 { font-size: 0.9rem; margin: 0; font-weight: 600; }
a { color: var(--link); }
#clock { margin: 0; color: var(--soft); font-size: 0.85rem; font-variant-numeric: tabular-nums; }
#clock::before { content: ""; display: inline-block; width: 0.6em; height: 0.6em; margin-right: 0.45em;
  border-radius: 50%; background: var(--ended); }
.stale #clock { color: var(--dead); font-weight: 600; }
.stale #clock::before { background: none; border: 2px solid currentColor; border-radius: 0; }
.stale main { opacity: 0.55; }
.facts { display: flex; flex-wrap: wrap; gap: 0.6rem; margin: 0.9rem 0; }
.facts div, .card { background: var(--card); border: 1px solid var(--line); border-radius: 6px; }
.facts div { flex: 1 1 9.5rem; max-width: 17rem; padding: 0.45rem 0.75rem 0.5rem; }
dt { color: var(--soft); font-size: 0.8rem; }
dd { margin: 0; font-size: 1.15rem; line-height: 1.3; font-weight: 600; font-variant-numeric: tabular-nums; }
dd small { display: block; font-size: 0.8rem; font-weight: 400; color: var(--soft); }
.trouble { border-left: 4px solid var(--idle); background: var(--card); border-radius: 0 6px 6px 0;
  padding: 0.55rem 0.9rem; margin: 0 0 0.9rem; }
.trouble ul { margin: 0; padding: 0; list-style: none; }
.trouble li { overflow-wrap: anywhere; }
.trouble a { color: inherit; }
.panels { display: grid; grid-template-columns: minmax(0, 5fr) minmax(0, 8fr); gap: 0.9rem; margin-bottom: 0.9rem; }
.card { padding: 0.75rem 0.9rem; min-width: 0; }
.charts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); grid-auto-rows: 1fr; gap: 0.9rem; }
.top { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: 0 0.8rem;
  margin-bottom: 0.3rem; }
.now { font-size: 0.8rem; color: var(--soft); font-variant-numeric: tabular-nums; }
.charts .card { display: flex; flex-direction: column; }
.empty { color: var(--soft); font-size: 0.9rem; margin: auto; padding: 1.5rem 0; max-width: 20rem; text-align: center; }
.note { color: var(--soft); font-size: 0.8rem; margin: 0.5rem 0 0; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-family: inherit; font-variant-numeric: tabular-nums; }
.graph { max-width: 34rem; margin: 0 auto; }
.shape { stroke-width: 1.5; }
.shape.part { fill: var(--part); stroke: var(--part); }
.shape.idle { fill: var(--idle); stroke: var(--idle); }
.shape.ended { fill: var(--bg); stroke: var(--ended); stroke-width: 3; }
.core { fill: var(--ended); }
.shape.away { fill: var(--bg); stroke: var(--away); stroke-dasharray: 3 2.5; stroke-width: 2; }
.shape.unasked { fill: var(--bg); stroke: var(--away); }
.peer text { font-size: 11px; font-weight: 600; text-anchor: middle; dominant-baseline: central; fill: var(--on); }
.peer.away text, .peer.unasked text { fill: var(--soft); }
.peer.ended text { fill: var(--ended); }
.peer .cross, .mark .cross { stroke: var(--away); stroke-width: 1.5; }
.outside { font-size: 9px; text-anchor: middle; dominant-baseline: central; fill: var(--soft); }
.outside.idle { fill: var(--idle); font-weight: 700; }
.outside.away { fill: var(--ink); font-weight: 700; }
.link path, .wait path { fill: none; }
.link path { stroke-width: 1.5; }
.dense-links .alive path, .dense-links .unseen path { stroke-width: 1; opacity: 0.6; }
.denser-links .alive path, .denser-links .unseen path { stroke-width: 0.7; opacity: 0.35; }
.dense-waits .wait { opacity: 0.75; }
.dense-waits .wait path { stroke-width: 1.2; }
.denser-waits .wait { opacity: 0.5; }
.denser-waits .wait path { stroke-width: 0.9; }
.alive path { stroke: var(--alive); }
.unseen path { stroke: var(--unseen); stroke-dasharray: 1 5; stroke-linecap: round; stroke-width: 2; }
.suspect path { stroke: var(--suspect); stroke-dasharray: 8 4; stroke-width: 2.2; }
.gone path { stroke: var(--gone); stroke-dasharray: 2 4; stroke-width: 1.8; }
.dead path { stroke: var(--dead); stroke-dasharray: 5 3; stroke-width: 1.8; }
.dead .cross { stroke-dasharray: none; stroke-width: 2.2; }
.cross { fill: none; }
.wait path { stroke: var(--wait); stroke-width: 1.8; }
marker path { fill: var(--wait); stroke: none; }
.legend { display: flex; flex-wrap: wrap; gap: 0.15rem 1.1rem; margin: 0.6rem 0 0; padding: 0; list-style: none;
  font-size: 0.8rem; color: var(--soft); }
.legend li { display: flex; align-items: center; gap: 0.4rem; }
.mark { flex: none; width: 1rem; height: 1rem; }
.sample { flex: none; width: 1.75rem; height: 1rem; }
.axis path { stroke: var(--grid); fill: none; }
.axis text { font-size: 10px; fill: var(--soft); }
.value { text-anchor: end; }
.round { text-anchor: middle; }
.line path { fill: none; stroke-width: 1.7; stroke-linejoin: round; }
.line.faint path { stroke: var(--part); stroke-width: 0.8; opacity: 0.35; }
.line.many path { stroke-width: 0.6; opacity: 0.18; }
.line.median path { stroke: var(--ink); stroke-width: 2.2; }
.bars rect { fill: var(--idle); }
.end { font-size: 10px; font-weight: 600; }
.s0 { stroke: var(--s0); fill: var(--s0); } .s1 { stroke: var(--s1); fill: var(--s1); }
.s2 { stroke: var(--s2); fill: var(--s2); } .s3 { stroke: var(--s3); fill: var(--s3); }
.s4 { stroke: var(--s4); fill: var(--s4); } .s5 { stroke: var(--s5); fill: var(--s5); }
.s6 { stroke: var(--s6); fill: var(--s6); } .s7 { stroke: var(--s7); fill: var(--s7); }
text.end { stroke: none; }
.line circle { stroke: none; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.5rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
thead th { vertical-align: bottom; color: var(--soft); font-weight: 600; white-space: nowrap; }
tbody tr:last-child > * { border-bottom: 0; }
.number { text-align: right; white-space: nowrap; }
.words { min-width: 8.5rem; overflow-wrap: anywhere; }
.state { min-width: 12rem; }
tbody th { white-space: nowrap; font-weight: 600; }
tbody th span { display: inline-flex; align-items: center; gap: 0.45rem; }
tr.idle .state, tr.away .state { font-weight: 600; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
footer { color: var(--soft); font-size: 0.8rem; margin-top: 1rem; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@media (max-width: 62rem) { .panels { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 46rem) {
  body { padding: 0.8rem 0.8rem 1.5rem; }
  .charts { grid-template-columns: minmax(0, 1fr); grid-auto-rows: auto; }
  .facts { gap: 0.5rem; }
  .facts div { max-width: none; }
  .axis text, .end { font-size: 11.5px; }
  .wide { overflow: visible; }
  table, tbody { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tbody tr { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0.25rem 0.8rem; padding: 0.7rem 0;
    border-bottom: 1px solid var(--line); }
  tbody tr:last-child { border-bottom: 0; padding-bottom: 0; }
  tbody tr > * { border: 0; padding: 0; text-align: left; white-space: normal; min-width: 0; overflow-wrap: anywhere; }
  .words { grid-column: 1 / -1; }
  tbody th { font-size: 1rem; }
  tbody th b::before { content: "rank "; }
  td.number { text-align: left; }
  td::before { content: attr(data-label); display: block; color: var(--soft); font-size: 0.75rem; line-height: 1.2; }
  td.none { display: none; }
}
@media print { .wide { overflow: visible; } .card, tr { break-inside: avoid; } }
"""

SCRIPT = """
(() => {
  const main = document.querySelector("main"), clock = document.getElementById("clock");
  const news = document.getElementById("news"), title = document.title;
  let heard = "";

  function show(html) {
    const next = new DOMParser().parseFromString(html, "text/html").body;
    const parts = [...next.querySelectorAll("section[id]")];
    const same = parts.length === main.querySelectorAll("section[id]").length
      && parts.every(part => document.getElementById(part.id));
    if (!same) main.replaceChildren(...next.childNodes);
    for (const part of same ? parts : []) {
      const old = document.getElementById(part.id);
      if (old.isEqualNode(part)) continue;
      const focus = old.contains(document.activeElement) ? document.activeElement.id : "";
      const far = [...old.querySelectorAll(".wide")].map(one => one.scrollLeft);
      old.replaceWith(part);
      part.querySelectorAll(".wide").forEach((one, number) => { one.scrollLeft = far[number] || 0; });
      if (focus) document.getElementById(focus)?.focus({preventScroll: true});
    }
    say(main.querySelector("[data-news]")?.dataset.news || "");
  }

  function say(words) {
    if (news.textContent === words) return;
    news.textContent = words;
    document.title = words ? `${words} - ${title}` : title;
  }

  async function look() {
    const reading = !getSelection().isCollapsed && main.contains(getSelection().anchorNode);
    if (!document.hidden && !reading) {
      try {
        const answer = await fetch("view", {cache: "no-store", signal: AbortSignal.timeout(10000)});
        if (!answer.ok) throw new Error(answer.status);
        show(await answer.text());
        heard = new Date().toLocaleTimeString();
        clock.textContent = `as of ${heard}`;
        document.body.classList.remove("stale");
      } catch (error) {
        document.body.classList.add("stale");
        clock.textContent = heard ? `no answer since ${heard}` : "no answer";
        say("no answer");
      }
    } else if (reading) clock.textContent = `as of ${heard}: held while text is selected`;
    setTimeout(look, 1000);
  }
  look();
})();
"""
