"""The handlers of commands and queries, by what they are about."""
