"""Numbers and powers."""
