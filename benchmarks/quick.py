"""The quick form of every benchmark: arguments with which it takes seconds, and shows that it runs.

tests/system/test_benchmarks.py runs each, and `table.py --quick` those of its rows. The figures of a quick form mean
nothing.
"""

from __future__ import annotations

_PEERS = "--peers 2 --parameters 1000 --rounds 2 --repeats 1"

QUICK = {
    "busy_host": "--rounds 2 --repeats 1",
    "chaos": "--seeds 3 --rounds 12 --kinds kill-1-0",
    "compression": "--side 40 --layers 2 --repeats 1",
    "cuts": "--cuts 0.2 --peers 3 --rounds 3 --round-seconds 0.1",
    "defaults": "--out defaults --sets digits --only clip1 --seeds 0 --rounds 1",
    "finish": "--sets digits --algorithms dfedmdc --seeds 0 --jobs 1 --rounds 1",
    "first_week": "--out weeks --only biopsies --seeds 0 --rounds 1 --sites 2",
    "flooded": "--kind junk unlisted neighbor --connections 2 --peers 3 --parameters 1000 --rounds 2 --repeats 1",
    "gossip_round": f"{_PEERS} --train 0.01",
    "harm": "--only digits --size 3 -- --rounds 1",
    "local_training": "--repeats 2 --samples 5",
    "mean_clipping": "--rounds 1 --seeds 1",
    "memory": "--parameters 10000 --rounds 1 --epochs 1",
    "optimizers": "--only digits --rows fedavg --seeds 1 --rounds 1",
    "outer_steps": "--rows outer synchronous base 'LoRA, outer' --seeds 0 --steps 2 --local-steps 1 --layers 1 "
    "--width 16 --roles 3 --base-steps 2",
    "per_example": "--batch 3 --repeats 2",
    "privacy": "--model digits --samples 10 --repetitions 1",
    "privacy_figure": "digits=compared --out privacy.svg",
    "quantization": "--parameters 3000 --repeats 1",
    "ray_actors": _PEERS,
    "resets": "--line 800Mbit/4ms --parameters 300000 --peers 2 --emulator proxy",
    "returns": "--algorithms fedavg --seeds 0 --away 3 --size 5",
    "robust": "--sets digits --seeds 0 --topologies full --attacks flipped --hostile 1 --rules clip --rounds 1",
    "sample_level": "--only cancer --seeds 1 --few 1",
    "scale": "--quick --repeats 1",
    "simulate": "--samples 8 --size 2 --rounds 1 --repetitions 1 --workers 1",
    "simulate_processes": "--peers 4 --rounds 1 --repeats 1",
    "speeds": "--peers 3 --rounds 3 --seeds 0 --round-seconds auto -- local_steps=2",
    "startup": "--peers 2 --parameters 1000 --repeats 1",
    "status_overhead": "--seconds 1 --local-steps 1 --repeats 1",
    "steady": "--peers 2 --parameters 1000 --rounds 8",
    "table": "--quick",
    "topologies": "--seeds 0-0 --rounds 1 --size 6 --body-epochs 1 --algorithm dfedmdc",
    "under_gossip": "--neighbors 1 --mb-per-s 1 --seconds 0.3 --repeats 1",
    "unfinished": "--repeats 2 --samples 5 --parameters 1000",
    "verdicts": "--seeds 0 --sites 2 -- --rounds 1 --body-epochs 1",
    "wide_area": "--lines 800Mbit/4ms --parameters 1000 --train 0.01 --peers 2 --rounds 1 --repeats 1 --emulator proxy",
    "wide_area_accuracy": "--out wide --rows float32 int8-overlap --seeds 0 --rounds 2",
}
