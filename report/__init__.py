"""Reports of runs, cards of models and pictures of graphs; most modules need matplotlib or Jinja2, which are extras."""
