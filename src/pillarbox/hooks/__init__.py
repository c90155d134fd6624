"""What agents tell of their lives: stored at once, processed in order, told to whoever listens."""
