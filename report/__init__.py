"""Pages and pictures: of what runs left, and of graphs. Most modules need matplotlib, which is an extra."""
