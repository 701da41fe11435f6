"""Comparisons of many runs: making the runs, choosing hyperparameters, statistics and tables."""
