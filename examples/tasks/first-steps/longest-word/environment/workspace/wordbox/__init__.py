"""Words in a box."""
