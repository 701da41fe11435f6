"""The HTML of a report, for Jinja2. Text, not a file beside the code, so that no packaging can lose it."""

from __future__ import annotations

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

PAGE = (
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="dpeer report {{ version }}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>"""
    + STYLE
    + """</style>
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
<a href="#results">Results</a>
{% if metrics %}
<a href="#metrics">More metrics</a>
{% endif %}
<a href="#settings">Settings</a>
{% for section, picture in sections %}
<a href="#{{ section.name }}">{{ section.title }}</a>
{% endfor %}
<a href="#runs">Runs and files</a>
</nav>

<section id="results">
<h2>Results at the end</h2>
<div class="wide">
<table>
<thead><tr><th>no.</th><th class="name">run</th>
{%- for column in columns %}<th>{{ column }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in rows %}
<tr><td>{{ row.number }}</td><td class="name">
{%- if row.color %}<span class="swatch" style="background:{{ row.color }}"></span>{% endif %}{{ row.label }}</td>
{%- for cell in row.cells %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
</div>
<p class="note">Means are over peers, each on its own {{ "validation" if on_validation else "test" }} data, none
counting more than another. Kept: the model that a peer has in the end, finished at home
{%- if kept_best %} or, with keep = best, the best one by validation loss{% endif %}. After mixing: with its body mixed
with its neighbors' in the last round{% if kept_best %} (or the best one){% endif %}.
{% if measure.trained %}
Before mixing: the same peer as it had just trained itself.
{% endif %}
{% if seeds %}
Of several seeds: the mean over seeds, ± their standard deviation (that of a sample); the worst peer is that
of all seeds.
{% endif %}
</p>
</section>

{% if metrics %}
<section id="metrics">
<h2>More metrics at the end</h2>
<div class="wide">
<table>
<thead><tr><th>no.</th>{% for heading in metrics[0] %}<th>{{ heading }}</th>{% endfor %}</tr></thead>
<tbody>
{% for group in grouped.groups %}
<tr><td>{{ group.number }}</td>
{%- for cell in metrics[1][loop.index0] %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
</div>
<p class="note">Means over the peers, each on its own data; a peer whose data leave a metric undefined does not count.
Each peer's intervals are in its <code>model.json</code>.</p>
</section>
{% endif %}

<section id="settings">
<h2>Settings</h2>
{% if grouped.differing %}
<p>In these the runs differ:</p>
<div class="wide">
<table>
<thead><tr><th>no.</th>{% for key in grouped.differing %}<th class="name">{{ key }}</th>{% endfor %}</tr></thead>
<tbody>
{% for group in grouped.groups %}
<tr><td>{{ group.number }}</td>
{%- for key in grouped.differing %}<td class="text">{{ group.values[key] }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
</div>
{% endif %}
{% if grouped.common %}
<p>{{ "These they have in common:" if grouped.groups | length > 1 else "The run's:" }}</p>
<p class="settings">{% for key, value in grouped.common.items() -%}
<span><b>{{ key }}</b> {{ value }}</span> {% endfor %}</p>
{% else %}
<p>The runs did not leave their settings.</p>
{% endif %}
</section>

{% for section, picture in sections %}
<section id="{{ section.name }}">
<h2>{{ section.title }}</h2>
{% if picture %}
<figure>
<div class="wide"><img src="{{ picture }}" alt="{{ section.alt }}"></div>
<figcaption>{{ section.caption }}</figcaption>
</figure>
{% else %}
<p class="note">{{ section.caption }}</p>
{% endif %}
</section>

{% endfor %}
<section id="runs">
<h2>Runs and files</h2>
<div class="wide">
<table>
<thead><tr><th>no.</th><th class="name">folder</th><th>seed</th>
<th class="name">state</th><th class="name">notes</th></tr></thead>
<tbody>
{% for group in grouped.groups %}
{% for run in group.runs %}
<tr><td>{{ group.number }}</td><td class="name"><code>{{ run.folder }}</code></td>
<td>{{ as_text(run.settings.get("seed")) }}</td>
<td class="text">{{ run.status }}</td><td class="text">{{ run.notes | join("; ") }}</td></tr>
{% endfor %}
{% endfor %}
</tbody>
</table>
</div>
</section>
<footer>Made by dpeer report {{ version }} from the runs' summary.json and metrics.jsonl. It holds no data and no model,
but accuracies, class counts and paths: see who should have it.</footer>
</body>
</html>
"""
)
