"""The HTTP API, its description, and the page an operator looks at first."""
