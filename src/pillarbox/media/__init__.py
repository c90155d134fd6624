"""Voice messages and files that people send: fetched, kept, and turned into words where that can be done."""
