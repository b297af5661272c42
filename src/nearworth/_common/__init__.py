"""What every other part may use."""
