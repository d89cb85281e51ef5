"""Values of user code, and the types that its hints give them: to JSON and back, checked at the border."""
