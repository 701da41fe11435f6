"""Let atheris look for a message that does what none may do: `make fuzz`.

What follows are options of libFuzzer, and folders of cases: new ones go to the first.
"""

import os
import sys

import atheris

os.environ["MSGPACK_PUREPYTHON"] = "1"  # so that it sees which lines of msgpack, too, a case comes to


def main():
    with atheris.instrument_imports(include=["dpeer.peer", "msgpack.fallback"]):
        from tests.peer.fuzzing import tried
    atheris.Setup(sys.argv, lambda data: tried(data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
