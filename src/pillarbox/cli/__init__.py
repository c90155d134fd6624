"""The command line: speaks to the database directly, and answers what the HTTP API answers."""
