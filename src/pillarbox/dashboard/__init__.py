"""The pages for operators: what needs them, every message, and the buttons to act."""
