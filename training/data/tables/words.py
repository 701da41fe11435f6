"""Words and patterns by which a proposed schema tells kinds of columns apart."""

from __future__ import annotations

import re

YES = (
    "yes", "y", "true", "t", "ja", "j", "oui", "si", "sí", "sì", "sim", "da", "tak", "ano", "igen", "kyllä", "evet",
    "positive", "pos", "present",
)  # fmt: skip
"""Yes in several languages, without capitals."""

NO = (
    "no", "n", "false", "f", "nein", "non", "não", "nao", "nu", "nie", "ne", "nem", "nej", "nee", "ei", "hayır",  # noqa: RUF001
    "negative", "neg", "absent",
)  # fmt: skip
"""No in several languages, without capitals."""

DATES = (
    "%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y%m%d", "%d.%m.%y",
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%d.%m.%Y %H:%M",
    "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z",
)  # fmt: skip
"""Formats of dates, in the order in which they are tried."""

TARGETS = ("target", "outcome", "label", "class", "y", "diagnosis", "result", "income")
"""Names of columns that are probably to be predicted, the likeliest first."""

PERSON = re.compile(r"(^|[\s_.-])(patient|subject|person|case|mrn|pid)([\s_.-]?(id|nr|no|number|key))?$", re.IGNORECASE)
"""Names of columns that say whose a row is."""

IDENTIFIER = re.compile(
    r"(^|[\s_.-])(id|ids|nr|no|uuid|guid|key|index|row|number|mrn|pid)$|^(unnamed.*|__index_level_\d+__|)$",
    re.IGNORECASE,
)
"""Names of columns that number rows or name things."""

UNIT = re.compile(r"[(\[]([^()\[\]]{1,12})[)\]]\s*$")
"""A unit in brackets at the end of a name."""

_SUFFIXES = "years|yrs|days|hours|min|kg|g|mg|ug|cm|mm|m|mmhg|bpm|mmol|mmol_l|mg_dl|g_dl|ml|l|celsius|percent|pct"
SUFFIX = re.compile(rf"[\s_]({_SUFFIXES})$", re.IGNORECASE)
"""A unit as the last word of a name."""
