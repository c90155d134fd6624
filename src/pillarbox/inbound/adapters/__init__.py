"""The chat platforms: what proves that a request is theirs, and what it says, in our words."""
