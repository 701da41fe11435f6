"""Error messages of results/."""

from dpeer.exceptions import ConfigurationError
from dpeer.results.sites import read_site
from tests.messages.message import Message, file

DAMAGED = "'{folder}/worth.json' is no file of dpeer worth --give-away, or is damaged"

MESSAGES = {
    "deep brackets in a site's file": Message(file("worth.json", "[" * 9_000, read_site), ConfigurationError, DAMAGED),
    "a terminal's control sequence": Message(file("worth.json", "\x1b[2J", read_site), ConfigurationError, DAMAGED),
}
