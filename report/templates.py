"""HTML templates for Jinja2: the page of a report, and the page about a model."""

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

REPORT = (
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
{% for name, panel, picture in panels %}
<a href="#{{ name }}">{{ panel.title }}</a>
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

{% for name, panel, picture in panels %}
<section id="{{ name }}">
<h2>{{ panel.title }}</h2>
{% if picture %}
<figure>
<div class="wide"><img src="{{ picture }}" alt="{{ panel.alt }}"></div>
<figcaption>{{ panel.caption | trim }}</figcaption>
</figure>
{% else %}
<p class="note">{{ panel.caption | trim }}</p>
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

CARD = (
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="dpeer card {{ version }}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>"""
    + STYLE
    + """
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1.2rem; margin: 0.6rem 0; }
dt { font-weight: 600; }
dd { margin: 0; overflow-wrap: anywhere; }
td.name { min-width: 2rem; }
td.ends { white-space: nowrap; }
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
<div class="wide"><table>
<thead><tr><th class="name">figure</th><th>value</th><th>95 % interval</th></tr></thead>
<tbody>
{% for name, number, ends, why in values %}
<tr><td class="name">{{ name }}</td><td>{{ number }}</td>
{%- if why %}<td>{{ why }}</td>{% else %}<td class="ends">{{ ends }}</td>{% endif %}</tr>
{% endfor %}
{% for name, number in own %}
<tr><td class="name">{{ name }}</td><td>{{ number }}</td><td>-</td></tr>
{% endfor %}
</tbody></table></div>
{% else %}
<p>There are no figures for such a task{{ " but its own" if own else "" }}.</p>
{% if own %}
<dl>{% for name, number in own %}<dt>{{ name }}</dt><dd>{{ number }}</dd>{% endfor %}</dl>
{% endif %}
{% endif %}
</section>

{% if classes | length > 2 %}
<section id="classes">
<h2>By class</h2>
<div class="wide"><table>
<thead><tr><th class="name">class</th><th>rows</th><th>sensitivity</th><th>95 % interval</th><th>specificity</th>
<th>F1</th><th>AUROC</th></tr></thead>
<tbody>
{% for one in classes %}
<tr><td class="name">{{ one.class }}</td><td>{{ one.rows }}</td><td>{{ value(one.sensitivity) }}</td>
<td class="ends">{{ interval(one.sensitivity) }}</td><td>{{ value(one.specificity) }}</td><td>{{ value(one.f1) }}</td>
<td>{{ value(one.auroc) }}</td></tr>
{% endfor %}
</tbody></table></div>
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
by the probability that the model gave. On the dashed line probabilities mean what they say; a dot's size is the number
of its rows.</p>
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
<div class="wide"><table>
<thead><tr><th class="name">class</th>
{%- for part in counts[0][0].split(", ") %}<th>{{ part }}</th>{% endfor %}</tr></thead>
<tbody>
{% for name, numbers in counts[1:] %}
<tr><td class="name">{{ name }}</td>{% for count in numbers %}<td>{{ count }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
{% endif %}
</section>

<section id="training">
<h2>How it was trained</h2>
<dl>{% for name, text in training %}<dt>{{ name }}</dt><dd>{{ text }}</dd>{% endfor %}</dl>
<p>{{ privacy }}</p>
</section>

<footer>dpeer {{ version }}. This page says what model.json beside the model says:
{{ "figures of records that one peer has held out" if protected else "class counts and figures of one peer's data" }}.
Consider who should have it.</footer>
</body>
</html>
"""
)
