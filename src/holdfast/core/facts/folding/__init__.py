"""The fold: one module per subject, each with the changes its events make to the state. Never here: refusing anything, what
follows from an event."""
