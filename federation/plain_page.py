"""Plain HTML page of a status document, for servers that no other page was handed: a table of peers."""

from __future__ import annotations

from html import escape

from dpeer.federation.status_document import Document

_SCRIPT = """
async function look() {
  try {
    const found = await fetch("view");
    if (found.ok) document.querySelector("main").innerHTML = await found.text();
  } finally { setTimeout(look, 1000); }
}
look();
"""

_STYLE = "body{font:16px system-ui;margin:1rem}td,th{text-align:left;padding:.2rem 1rem .2rem 0}:root{color-scheme:light dark}"  # noqa: E501


def page(title: str) -> str:
    """The whole page, which fetches `view` each second."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1><main></main>"
        f"<script>{_SCRIPT}</script></body></html>"
    )


def view(document: Document) -> str:
    """The table of the peers."""
    rows = []
    for peer in document["peers"]:
        rounds = f"{peer.get('completed') or 0}/{peer.get('rounds') or '-'}"
        cells = (peer["folder"], rounds, peer.get("phase") or peer["state"], peer["unready"] or "takes part")
        rows.append(f"<tr>{''.join(f'<td>{escape(str(one))}</td>' for one in cells)}</tr>")
    head = "".join(f'<th scope="col">{one}</th>' for one in ("peer", "rounds", "state", "takes part"))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
