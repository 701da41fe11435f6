"""Error messages of report/."""

from dpeer.exceptions import OutputError
from dpeer.report.page import check_out
from tests.messages.message import Message, file

MESSAGES = {
    "a folder of something else": Message(
        file("note.txt", "x", lambda path: check_out(path.parent)), OutputError,
        "--out '{folder}' holds something that is no report: name another folder",
    ),
    "a file for a report": Message(
        file("note.txt", "x", check_out), OutputError, "--out '{folder}/note.txt' is a file: name a folder"
    ),
}  # fmt: skip
