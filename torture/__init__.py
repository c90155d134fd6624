"""Real processes under a seeded nemesis, and one checker for all pipes: `python -m torture --help`."""
