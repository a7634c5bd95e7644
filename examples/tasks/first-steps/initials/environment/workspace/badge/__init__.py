"""Name badges."""
