"""Measurements on this machine, each beside the raw database doing the same writes in the same run."""
