"""Records a hello and a body of this protocol, which all later versions must read: `python -m tests.peer.record`.

It is run once for a number of the protocol. What it has written is never changed.
"""

import json
from pathlib import Path

from dpeer.peer.core import wire

RECORDED = Path(__file__).parent / "recorded"
FEDERATION = b"federation-id-16"

HELLO = wire.Hello(
    rank=1, next_round=3, reply=True, fingerprint={"size": 3, "body_lr": 0.05}, digest="same",
    manifest={"parameters": [{"name": "w", "shape": [2], "offset": 0}]}, presence=b"\x01\0\0\0" * 3, enters=6,
)  # fmt: skip
BUFFERS = [b"12345678", b"abc"]
BODY = wire.body(FEDERATION, 1, 4, BUFFERS, wire.digest_of(BUFFERS), b"\x01\0\0\0" * 3)


def plain(value):
    """A value as JSON; bytes as {"hex": ...}."""
    return {"hex": bytes(value).hex()} if isinstance(value, bytes) else value


def main():
    messages = [
        {
            "kind": one.kind,
            "frames": [bytes(frame).hex() for frame in wire.encode(one)],
            "fields": {name: plain(value) for name, value in one.model_dump().items()},
        }
        for one in (HELLO, BODY)
    ]
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"protocol-{wire.PROTOCOL}.json").write_text(json.dumps(messages, indent=1) + "\n")


if __name__ == "__main__":
    main()
