"""Measurements on this machine, each beside what others make of the same database in the same run."""
