"""Contestants of a gossip round: the same sends, receives and sums by other means.

Every contestant has the body of a peer in one float32 vector and, round after round, sends it to all its neighbors,
receives theirs, and replaces it by the mean of all. Option `sleeps`: seconds before it, as where a GPU trains.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Sequence

import torch
import zmq
from fleet import Case, Figures, Introduce, Laps
from torch import Tensor

from dpeer.federation.process_tuning import keep_heap

_AT_ONCE = 1 << 20


def mix(body: Tensor, received: Sequence[Tensor]) -> None:
    """The mean of the own body and those received, in place and without temporaries."""
    weight = 1 / (len(received) + 1)
    torch.mul(body, weight, out=body)
    for other in received:
        body.add_(other, alpha=weight)


def raw(rank: int, case: Case, introduce: Introduce) -> Figures:
    """Plain TCP: one thread, all directions at once, one landing buffer for each neighbor, used again and again."""
    links = _connected(rank, case, introduce)
    body = torch.rand(case.parameters)
    landing = {other: torch.empty(case.parameters) for other in links}
    views = {other: _bytes(tensor) for other, tensor in landing.items()}
    own = _bytes(body)
    laps = Laps(case.warm_up, case.cool_down)
    with selectors.DefaultSelector() as selector:
        for _ in range(case.all_rounds):
            if case.options.get("sleeps"):  # one of no time takes some
                time.sleep(case.options["sleeps"])
            _exchange(selector, links, own, views)
            mix(body, [landing[other] for other in sorted(landing)])
            laps.lap()
    return laps.figures(len(links) * own.nbytes)


def _exchange(
    selector: selectors.BaseSelector, links: dict[int, socket.socket], own: memoryview, views: dict[int, memoryview]
) -> None:
    """Send `own` on every link and fill every view, whichever socket is ready."""
    sent, got = dict.fromkeys(links, 0), dict.fromkeys(links, 0)
    for other, link in links.items():
        selector.register(link, selectors.EVENT_READ | selectors.EVENT_WRITE, other)
    while selector.get_map():
        for key, events in selector.select():
            other, link = key.data, links[key.data]
            if events & selectors.EVENT_READ and got[other] < own.nbytes:
                count = link.recv_into(views[other][got[other] : got[other] + _AT_ONCE])
                if not count:
                    raise RuntimeError("a neighbor has gone")
                got[other] += count
            if events & selectors.EVENT_WRITE and sent[other] < own.nbytes:
                sent[other] += link.send(own[sent[other] : sent[other] + _AT_ONCE])
            left = (selectors.EVENT_READ if got[other] < own.nbytes else 0) | (
                selectors.EVENT_WRITE if sent[other] < own.nbytes else 0
            )
            if not left:
                selector.unregister(link)
            elif left != key.events:
                selector.modify(link, left, other)


def _connected(rank: int, case: Case, introduce: Introduce) -> dict[int, socket.socket]:
    """A socket to each neighbor: the lower rank connects."""
    listener = socket.create_server((case.lines.host(rank), 0), backlog=case.size)
    ports = introduce(listener.getsockname()[1])
    links = {}
    for other in case.neighbors[rank]:
        if other > rank:
            links[other] = socket.create_connection(case.lines.reach(rank, other, ports[other]))
            links[other].sendall(bytes([rank]))
    for _ in [other for other in case.neighbors[rank] if other < rank]:
        link, _ = listener.accept()
        links[link.recv(1)[0]] = link
    for link in links.values():
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.setblocking(False)
    listener.close()
    return links


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.numpy().data.cast("B")


def pickle(rank: int, case: Case, introduce: Introduce) -> Figures:
    """Objects through ZeroMQ's own send_pyobj and recv_pyobj, mixed by the same sum in place.

    Option `mallopt`: with the heap kept, as a peer keeps it.
    """
    if case.options.get("mallopt"):
        keep_heap()
    with zmq.Context() as context:
        inbox = context.socket(zmq.PULL)
        port = inbox.bind_to_random_port(f"tcp://{case.lines.host(rank)}")
        ports = introduce(port)
        outboxes = []
        for other in case.neighbors[rank]:
            outboxes.append(context.socket(zmq.PUSH))
            host, reached = case.lines.reach(rank, other, ports[other])
            outboxes[-1].connect(f"tcp://{host}:{reached}")
        body = torch.rand(case.parameters)
        early: dict[int, dict[int, Tensor]] = {}
        laps = Laps(case.warm_up, case.cool_down)
        for number in range(case.all_rounds):
            if case.options.get("sleeps"):  # one of no time takes some
                time.sleep(case.options["sleeps"])
            for outbox in outboxes:
                outbox.send_pyobj({"rank": rank, "round": number, "body": body.numpy()})
            here = early.setdefault(number, {})
            while len(here) < len(outboxes):
                message = inbox.recv_pyobj()
                early.setdefault(message["round"], {})[message["rank"]] = torch.from_numpy(message["body"])
            mix(body, [here[other] for other in sorted(here)])
            del here, early[number]
            laps.lap()
        figures = laps.figures(len(outboxes) * 4 * case.parameters)
        for outbox in outboxes:
            outbox.close(linger=10_000)
        inbox.close(linger=0)
    return figures


def gloo(rank: int, case: Case, introduce: Introduce) -> Figures:
    """torch.distributed's gloo: isend and irecv with every neighbor, into landing buffers used again and again."""
    import torch.distributed as dist
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = None
    if rank == 0:
        store = TCPStore("127.0.0.1", 0, case.size, is_master=True, wait_for_workers=False)
    port = introduce(store.port if store is not None else None)[0]
    if store is None:
        store = TCPStore("127.0.0.1", port, case.size, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=case.size)
    body = torch.rand(case.parameters)
    landing = {other: torch.empty(case.parameters) for other in case.neighbors[rank]}
    laps = Laps(case.warm_up, case.cool_down)
    for _ in range(case.all_rounds):
        waiting = [dist.irecv(buffer, other) for other, buffer in landing.items()]
        waiting += [dist.isend(body, other) for other in landing]
        for one in waiting:
            assert one is not None
            one.wait()
        mix(body, [landing[other] for other in sorted(landing)])
        laps.lap()
    figures = laps.figures(len(landing) * 4 * case.parameters)
    dist.barrier()
    dist.destroy_process_group()
    return figures
