"""Eight peers on this machine, from Python: `python examples/from_python.py` (about a minute)."""

from pathlib import Path

import dpeer

out = Path("dpeer-run-example")
settings = dpeer.Settings(size=8, topology="ring", task="digits", rounds=10, out=out / "together")


def tell(line):
    """Say how the first peer does, round by round."""
    if line["rank"] == 0:
        print(f"round {line['round'] + 1}: accuracy {line['accuracy']:.3f}")


if __name__ == "__main__":
    together = dpeer.run(settings, mode="cluster", overwrite=True, on_record=tell)
    alone = settings.model_copy(update={"algorithm": "local", "out": out / "alone"})
    baseline = dpeer.run(alone, mode="simulate", overwrite=True)
    print(f"mean: {together.summary['accuracy_mean']:.3f} together, {baseline.summary['accuracy_mean']:.3f} alone")
