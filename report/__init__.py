"""Reports of runs, and pictures of runs and graphs. Most modules need matplotlib, which is an extra."""
