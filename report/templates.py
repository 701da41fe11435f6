"""HTML templates for Jinja2: the page of a report, and the page about a model."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, StrictUndefined

import dpeer


def render(template: str, **values: Any) -> str:
    """A page as HTML; text is escaped, and a value that is missing is an error."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(TABLE + template).render(version=dpeer.__version__, style=STYLE, **values)


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

REPORT = """<!DOCTYPE html>
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
<p>{{ summary }}.</p>
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
but accuracies, class counts and paths: see who should have it.</footer>
</body>
</html>
"""

CARD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="dpeer card {{ version }}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>{{ style | safe }}
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1.2rem; margin: 0.6rem 0; }
dt { font-weight: 600; }
dd { margin: 0; overflow-wrap: anywhere; }
td.name { min-width: 2rem; }
.matrix td.right { background: #d9ecf7; font-weight: 600; }
.reliability { width: 22rem; max-width: 100%; height: auto; }
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: 0.4rem; } }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<p>Written {{ written }}.</p>

<section id="figures">
<h2>How well it does</h2>
{% if figures %}
<p>Measured on {{ figures.rows }} {{ "row" if figures.rows == 1 else "rows" }} of the peer's own
{{ measured_on }} data, with 95 % intervals
{%- if figures.positive is defined %}; the positive class is <b>{{ figures.positive }}</b>{% endif %}.</p>
{{ table([("figure", "name"), ("value", ""), ("95 % interval", "")], values) }}
{% else %}
<p>Such a task has no figures{{ " but its own" if own else "" }}.</p>
{% if own %}
<dl>{% for name, number in own %}<dt>{{ name }}</dt><dd>{{ number }}</dd>{% endfor %}</dl>
{% endif %}
{% endif %}
</section>

{% if classes | length > 2 %}
<section id="classes">
<h2>By class</h2>
{{ table([("class", "name"), ("rows", ""), ("sensitivity", ""), ("95 % interval", ""), ("specificity", ""), ("F1", ""),
 ("AUROC", "")], by_class) }}
{% if more_classes %}<p class="note">{{ more_classes }} more classes are in model.json.</p>{% endif %}
</section>
{% endif %}

{% if confusion %}
<section id="confusion">
<h2>Confusion matrix</h2>
<p>A row for each true class, a column for each predicted one.</p>
<div class="wide"><table class="matrix">
<thead><tr><th class="name">true class</th>{% for one in classes %}<th>{{ one.class }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in confusion %}{% set number = loop.index0 %}
<tr><td class="name">{{ classes[number].class }}</td>
{%- for count in row %}<td{% if loop.index0 == number %} class="right"{% endif %}>{{ count }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
</section>
{% endif %}

{% if bins %}
<section id="calibration">
<h2>Calibration</h2>
<p>How often {{ "a row is of the positive class" if figures.positive is defined else "the predicted class is right" }},
by the probability that the model gave. On the dashed line predicted and observed shares are equal; a dot's size
is the number of its rows.</p>
<svg class="reliability" viewBox="0 -12 340 332" role="img" aria-label="Observed share by predicted probability">
<line x1="50" y1="270" x2="310" y2="10" stroke="#999" stroke-dasharray="5 4"/>
<path d="M50 10 V270 H310" fill="none" stroke="#333"/>
{% for tick in [0, 0.5, 1] %}
<text x="{{ 50 + 260 * tick }}" y="288" text-anchor="middle" font-size="12">{{ tick }}</text>
<text x="42" y="{{ 274 - 260 * tick }}" text-anchor="end" font-size="12">{{ tick }}</text>
{% endfor %}
<text x="180" y="310" text-anchor="middle" font-size="12">predicted probability</text>
<text x="14" y="140" text-anchor="middle" font-size="12" transform="rotate(-90 14 140)">observed share</text>
{% for bin in bins if bin.rows %}
<circle cx="{{ (50 + 260 * bin.predicted) | round(1) }}" cy="{{ (270 - 260 * bin.observed) | round(1) }}"
 r="{{ (3 + 14 * (bin.rows / figures.rows) ** 0.5) | round(1) }}" fill="#0072b2" fill-opacity="0.65">
<title>{{ bin.rows }} rows: predicted {{ "%.2f" | format(bin.predicted) }}, observed
 {{ "%.2f" | format(bin.observed) }}</title></circle>
{% endfor %}
</svg>
</section>
{% endif %}

<section id="model">
<h2>The model</h2>
<dl>{% for name, text in about %}<dt>{{ name }}</dt><dd>{{ text }}</dd>{% endfor %}</dl>
{% if columns %}
<p>It needs these {{ columns | length }} columns, in any order:</p>
<p class="settings">{% for name in columns %}<span><code>{{ name }}</code></span> {% endfor %}</p>
{% endif %}
{% if counts %}
{{ table(parts, counts) }}
{% endif %}
</section>

<section id="training">
<h2>How it was trained</h2>
<dl>{% for name, text in training %}<dt>{{ name }}</dt><dd>{{ text }}</dd>{% endfor %}</dl>
<p>{{ privacy }}</p>
</section>

<footer>dpeer {{ version }}. This page shows model.json beside the model:
{{ "figures of records that one peer has held out" if protected else "class counts and figures of one peer's data" }}.
Consider who should have it.</footer>
</body>
</html>
"""
