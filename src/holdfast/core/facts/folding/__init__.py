"""How each event changes the state, a module for each subject. Never here: refusing anything, what follows from an event."""
