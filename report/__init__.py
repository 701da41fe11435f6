"""Reports of runs and pictures of graphs; most modules need matplotlib or Jinja2, which are extras."""
