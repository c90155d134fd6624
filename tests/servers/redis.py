"""A real Redis-compatible server: the one PILLARBOX_TEST_REDIS names, or a Valkey that we start."""
