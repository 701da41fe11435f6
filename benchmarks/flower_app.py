"""The Flower app of `flower_rounds.py`: a server and clients that exchange a body, round after round.

Runs in an environment that has flwr and need not have dpeer or torch. The message API as Flower documents it: the
server sends its arrays to all nodes, each waits for as long as training takes, adds a change and replies, and the
server takes the mean. The times of the rounds go to a file.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

app = ServerApp()
client = ClientApp()


def main(grid: Grid, context: Context) -> None:
    """Run the rounds, and write down when each ended."""
    config = context.run_config
    size, rounds = int(config["size"]), int(config["rounds"])
    while len(nodes := list(grid.get_node_ids())) < size:
        time.sleep(0.2)
    body = np.zeros(int(config["parameters"]), dtype=np.float32)
    ended = []
    for _ in range(rounds):
        asked = [_message(body, node, float(config["train"])) for node in nodes]
        replies = [_body(reply) for reply in grid.send_and_receive(asked)]
        if len(replies) < size:
            raise RuntimeError(f"{len(replies)} of {size} nodes have replied")
        np.divide(sum(replies), size, out=body)
        ended.append(time.time())
    Path(str(config["out"])).write_text(json.dumps(ended))


def _message(body: np.ndarray, node: int, train: float) -> Message:
    content = RecordDict({"arrays": ArrayRecord({"body": Array(body)}), "config": ConfigRecord({"train": train})})
    return Message(content=content, dst_node_id=node, message_type="train")


def _body(reply: Message) -> np.ndarray:
    array = reply.content["arrays"]["body"].numpy()
    assert isinstance(array, np.ndarray)
    return array


def train(message: Message, context: Context) -> Message:
    """Change the body, and wait for the rest of the seconds that training takes.

    The change is noise: Flower sends equal arrays of several nodes once, and trained ones are never equal.
    """
    ends = time.monotonic() + float(message.content["config"]["train"])
    body = message.content["arrays"]["body"].numpy()
    body = body + np.random.default_rng().random(body.shape, np.float32)
    time.sleep(max(0.0, ends - time.monotonic()))
    return Message(content=RecordDict({"arrays": ArrayRecord({"body": Array(body)})}), reply_to=message)


app.main()(main)
client.train()(train)
