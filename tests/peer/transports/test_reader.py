"""What is not read for want of room costs nothing until there is room."""

import select

import zmq

from dpeer.peer.transports.reader import Reader


async def test_while_there_is_no_room_the_event_loop_does_not_turn_for_what_waits(until):
    signals, found, room = [], [], [True]
    with zmq.Context() as context, context.socket(zmq.PULL) as here, context.socket(zmq.PUSH) as there:
        here.linger = there.linger = 0
        port = here.bind_to_random_port("tcp://127.0.0.1")
        there.connect(f"tcp://127.0.0.1:{port}")
        reader = Reader(
            here, lambda message: found.append(message[0].bytes), lambda: room[0], signalled=lambda: signals.append(1)
        )
        there.send(b"first")
        await until(lambda: found == [b"first"])
        room[0] = False
        signals.clear()
        there.send(b"second")
        await until(lambda: signals)
        await until(lambda: not select.select([int(here.getsockopt(zmq.FD))], [], [], 0)[0], 10)
        assert found == [b"first"]
        room[0] = True
        reader.look_soon()
        await until(lambda: len(found) == 2)
        there.send(b"third")
        await until(lambda: len(found) == 3)
        assert found == [b"first", b"second", b"third"]
        reader.stop()
