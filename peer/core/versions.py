"""Protocol versions: what each version adds to messages, and the check of a message by its link's version; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Union

from pydantic import BaseModel, Field, TypeAdapter

from dpeer.exceptions import ProtocolError


@dataclass(frozen=True, eq=False)
class Protocol:
    """The versions that a peer speaks, and their messages.

    A link uses the lower of the two newest versions. What a later version added is neither sent on it nor accepted.

    Args:
        added: By version, every one that is spoken: the kinds of messages ("ahead") and the fields ("heartbeat.hops")
            that it added. What is nowhere listed is part of all of them.
        messages: The classes of all messages, with a field `kind`.
    """

    added: Mapping[int, tuple[str, ...]]
    messages: tuple[type[BaseModel], ...]

    @property
    def newest(self) -> int:
        """The newest version that is spoken."""
        return max(self.added)

    @property
    def oldest(self) -> int:
        """The oldest version that is spoken."""
        return min(self.added)

    @cached_property
    def header(self) -> TypeAdapter[Any]:
        """Validates the fields of a message."""
        either: Any = Union[self.messages]  # noqa: UP007 - of a tuple
        return TypeAdapter(Annotated[either, Field(discriminator="kind")])

    @cached_property
    def _since(self) -> Mapping[str, int]:
        return {name: version for version, names in self.added.items() for name in names}

    def speaks(self, what: str, version: int) -> bool:
        """Whether a version has this kind of message, or this field ("KIND.FIELD")."""
        return self._since.get(what, self.oldest) <= version

    def left_out(self, kind: str, version: int) -> set[str]:
        """The fields of a kind of message that a version does not have."""
        if version >= self.newest:
            return set()
        parts = [what.partition(".") for what, since in self._since.items() if since > version]
        return {field for of, _, field in parts if of == kind and field}

    def check(self, message: BaseModel, version: int) -> None:
        """Refuse a message that the version of its link does not have.

        Raises:
            ProtocolError: reason "malformed".
        """
        if version >= self.newest:
            return
        kind = getattr(message, "kind", "")
        later = [kind, *(f"{kind}.{field}" for field in sorted(message.model_fields_set))]
        if found := next((what for what in later if not self.speaks(what, version)), None):
            raise ProtocolError("malformed", f"{found} is later than version {version}, which this link uses")
