"""Reports of runs, cards of models and pictures of graphs. Most modules need matplotlib or Jinja2, which are extras."""
