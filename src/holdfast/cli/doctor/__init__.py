"""`holdfast doctor`: everything that may be wrong around runs, and its remedy. Never here: mending it, a run's own affairs."""
