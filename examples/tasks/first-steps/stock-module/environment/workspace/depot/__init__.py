"""A depot."""
