"""Our three pipes, called as every peer is."""
