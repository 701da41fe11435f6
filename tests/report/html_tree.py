"""HTML as a tree, read by Python's own parser: fails where tags are not closed in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = ("meta", "link", "br", "img")


@dataclass
class Node:
    """An element: its tag, attributes, and content in order."""

    tag: str
    attributes: dict[str, str | None]
    content: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text within it."""
        return "".join(one if isinstance(one, str) else one.text for one in self.content)

    @property
    def classes(self) -> set[str]:
        """Its classes."""
        return set((self.attributes.get("class") or "").split())

    def walk(self) -> Iterator[Node]:
        """All elements within it."""
        for one in self.content:
            if isinstance(one, Node):
                yield one
                yield from one.walk()

    def all(self, tag: str | None = None, class_: str | None = None, **attributes: str) -> list[Node]:
        """The elements within it with this tag, class and attributes (`_` for `-`)."""
        wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
        return [
            one
            for one in self.walk()
            if tag in (None, one.tag)
            and (class_ is None or class_ in one.classes)
            and wanted.items() <= one.attributes.items()
        ]

    def one(self, tag: str | None = None, class_: str | None = None, **attributes: str) -> Node:
        """The only such element."""
        (found,) = self.all(tag, class_, **attributes)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"<{tag}> has an attribute twice"
        node = Node(tag, dict(attrs))
        self.open[-1].content.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.open[-1].content.append(data)


def tree(html: str) -> Node:
    """The tree of a page or of a part of one."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [reader.root], "an element is not closed"
    return reader.root
