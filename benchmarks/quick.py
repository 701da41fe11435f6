"""The quick form of every benchmark: arguments with which it takes seconds, and shows that it runs.

tests/benchmarks/test_quick_forms.py runs each, and `table.py --quick` those of its rows. The figures of a quick form
mean nothing.
"""

from __future__ import annotations

_PEERS = "--peers 2 --parameters 1000 --rounds 2 --repeats 1"

QUICK = {
    "blend": "--out blend --digits --seeds 1 --rounds 1",
    "declared_weights": "--seeds 1 --rounds 1 --out declared",
    "gossip_round": f"{_PEERS} --train 0.01",
    "gpu_peers": "--device cpu --peers 4 --batches 2 --batch 2",
    "local_training": "--repeats 2 --samples 5",
    "memory": "--parameters 10000 --rounds 1 --epochs 1",
    "simulate": "--samples 8 --size 2 --rounds 1 --repetitions 1 --workers 1",
    "startup": "--peers 2 --parameters 1000 --repeats 1",
    "table": "--quick",
    "wide_area": "--lines 800Mbit/4ms --parameters 1000 --train 0.01 --peers 2 --rounds 1 --repeats 1 --emulator proxy",
}
