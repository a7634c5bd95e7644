"""Lists cut into pages."""
