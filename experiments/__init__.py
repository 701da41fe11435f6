"""Many runs side by side: which there are, choosing hyperparameters, statistics and tables."""
