"""Large tables, made in seconds by copying one real row as often as it takes, and pipes that work on top of them."""
