"""The least that two processes on a store can do, in place of a queue: no order, no leases, no retries, no library."""
