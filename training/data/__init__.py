"""Data of a peer: readers of tables, images and text, and their division among peers."""
