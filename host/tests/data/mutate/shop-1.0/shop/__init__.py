"""A small shop, to put faults into."""
