"""Attacks on the mechanism that noises releases, as a neighbor could make them."""
