"""Simple statistics."""
