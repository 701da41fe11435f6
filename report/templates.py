"""HTML templates for Jinja2: the page of a report, and that of what left a site."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, StrictUndefined

import dpeer


def render(template: str, **values: Any) -> str:
    """A page as HTML; text is escaped, and a value that is missing is an error."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(TABLE + HEAD + template).render(version=dpeer.__version__, style=STYLE, **values)


TABLE = """{% macro table(columns, rows) %}
<div class="wide"><table>
<thead><tr>{% for heading, kind in columns %}<th{% if kind %} class="name"{% endif %}>{{ heading }}</th>
{%- endfor %}</tr></thead>
<tbody>
{% for row in rows %}
<tr>{% for cell in row %}{% set kind = columns[loop.index0][1] %}
<td{% if kind %} class="{{ kind }}"{% endif %}>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
{%- endmacro -%}
"""
"""Columns are (heading, kind): the kind is empty for numbers, "name", or "text" that may break into lines."""

STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; background: #fff; color: #1a1a1a;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.4rem; }
p { margin: 0.4rem 0; max-width: 48rem; }
nav a { margin-right: 0.9rem; white-space: nowrap; }
a { color: #00558b; }
.wide { overflow-x: auto; }
.wide + .wide { margin-top: 0.9rem; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.6rem; text-align: right; vertical-align: top; border-bottom: 1px solid #d4d4d4; }
thead th { vertical-align: bottom; border-bottom: 2px solid #555; line-height: 1.25; }
td { white-space: nowrap; }
th.name, td.name, td.text { text-align: left; white-space: normal; }
td.name { min-width: 9rem; overflow-wrap: anywhere; }
td.text { overflow-wrap: anywhere; }
.wide td.text { min-width: 4rem; max-width: 24rem; }
.caution { border-left: 0.25rem solid #d55e00; padding-left: 0.7rem; }
.swatch { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em; border-radius: 50%;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.settings { font-size: 0.9rem; overflow-wrap: anywhere; max-width: none; }
.settings span { display: inline-block; max-width: 100%; margin-right: 0.9rem; }
.settings b, th { font-weight: 600; }
figure { margin: 0.6rem 0; }
figure img { display: block; width: 46rem; max-width: 100%; height: auto; }
figcaption, .note { font-size: 0.9rem; color: #3d3d3d; max-width: 46rem; }
footer { margin-top: 2.5rem; font-size: 0.85rem; color: #555; }
code { font-size: 0.9em; overflow-wrap: anywhere; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  h2 { break-after: avoid; }
  figure, tr { break-inside: avoid; }
  figure img { max-height: 22cm; width: auto; }
  .wide { overflow: visible; }
  table { font-size: 8pt; }
  th, td { padding: 0.15rem 0.3rem; }
}
"""

HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="dpeer report {{ version }}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>{{ style | safe }}</style>
</head>
<body>
<h1>{{ title }}</h1>
"""

REPORT = """<p>{{ summary }}.</p>
{% for sentence in incomplete %}
<p class="caution">{{ sentence }}</p>
{% endfor %}
{% for headline in headlines %}
<p><strong>{{ headline }}.</strong></p>
{% endfor %}
<nav aria-label="Sections">
{% for name, panel in panels.items() %}
<a href="#{{ name }}">{{ {"results": "Results", "metrics": "More metrics"}.get(name, panel.title) }}</a>
{% endfor %}
</nav>

{% for name, panel in panels.items() %}
<section id="{{ name }}">
<h2>{{ panel.title }}</h2>
{% if panel.lead %}
<p>{{ panel.lead }}</p>
{% endif %}
{% if panel.columns %}
{{ table(panel.columns, panel.rows) }}
{% endif %}
{% if pictures[name] is defined %}
<figure>
<div class="wide"><img src="data:image/png;base64,{{ pictures[name] }}" alt="{{ panel.alt }}"></div>
<figcaption>{{ panel.caption | trim }}</figcaption>
</figure>
{% elif panel.terms is not none %}
<p>{{ panel.caption }}</p>
{% if panel.terms %}
<p class="settings">{% for key, value in panel.terms.items() -%}
<span><b>{{ key }}</b> {{ value }}</span> {% endfor %}</p>
{% endif %}
{% elif panel.caption %}
<p class="note">{{ panel.caption | trim }}</p>
{% endif %}
</section>

{% endfor %}
<footer>Made by dpeer report {{ version }} from the runs' summary.json and metrics.jsonl. It holds no data and no model,
but accuracies and paths: see who should have it.</footer>
</body>
</html>
"""

SITE = """<p>{{ summary }}</p>
{% for sentence in cautions %}
<p class="caution">{{ sentence }}</p>
{% endfor %}

{% for section in sections %}
<section>
<h2>{{ section.title }}</h2>
{% for sentence in section.sentences %}
<p>{{ sentence }}</p>
{% endfor %}
{% for columns, rows in section.tables %}
{{ table(columns, rows) }}
{% endfor %}
{% if section.terms %}
<p class="settings">{% for key, value in section.terms.items() -%}
<span><b>{{ key }}</b> {{ value }}</span> {% endfor %}</p>
{% endif %}
{% for sentence in section.notes %}
<p class="note">{{ sentence }}</p>
{% endfor %}
</section>

{% endfor %}
<footer>Made by dpeer report --site {{ version }} from the files of this peer's folder alone. It holds no row, no model,
no accuracy or loss, and no count of rows.</footer>
</body>
</html>
"""
