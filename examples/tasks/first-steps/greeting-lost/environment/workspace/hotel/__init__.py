"""A front desk."""
