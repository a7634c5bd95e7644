"""Numbers sorted out."""
