"""What operators see and do across the pipes: one log, actions on all that match, nodes, and what needs attention."""
