"""The HTML of a model's page, for Jinja2."""

from __future__ import annotations

from dpeer.report.template import STYLE

PAGE = (
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
