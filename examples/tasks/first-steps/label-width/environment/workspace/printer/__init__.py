"""Labels for boxes."""
