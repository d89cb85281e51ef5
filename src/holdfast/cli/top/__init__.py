"""`holdfast top`: what goes on, live. Never here: acting on it, a way to read that is not a query."""
