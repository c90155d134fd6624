"""Writing ourselves into the settings of agents, and out of them again."""
