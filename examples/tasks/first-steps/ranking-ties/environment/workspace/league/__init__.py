"""A league."""
