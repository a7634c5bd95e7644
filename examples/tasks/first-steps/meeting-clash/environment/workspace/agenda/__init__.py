"""An agenda."""
