"""Saved state of a learner: checkpoints between rounds, snapshots in memory, and the model that a run leaves."""
