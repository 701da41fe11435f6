"""Data of a peer: readers of tables, images and text, and their division among peers.

Readers make pools of tensors that know whom a sample is from (`groups`) and which must not be parted (`stretches`).
Partitions divide indices and know no data; tasks join the two.
"""
