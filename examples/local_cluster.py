"""Eight peers on this machine, from Python: python examples/local_cluster.py."""

from pathlib import Path

from dpeer.federation.running import run_federation
from dpeer.federation.settings import Settings

if __name__ == "__main__":  # the peers are processes that import this file
    settings = Settings(size=8, topology="ring", task="digits", rounds=10, out=Path("dpeer-run-example"))
    together = run_federation(settings, "cluster", overwrite=True)

    alone = settings.model_copy(update={"algorithm": "local", "out": settings.out / "local"})
    baseline = run_federation(alone, "simulate", overwrite=True)

    for rank, (gossip, local) in enumerate(
        zip(together.summary["accuracy"], baseline.summary["accuracy"], strict=True)
    ):
        print(f"rank {rank}: {gossip:.3f} together, {local:.3f} alone")
    print(f"mean: {together.summary['accuracy_mean']:.3f} together, {baseline.summary['accuracy_mean']:.3f} alone")
