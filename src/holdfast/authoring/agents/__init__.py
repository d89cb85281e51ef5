"""The things that an agent is given: tools by name, skills, memory, a conversation, models to choose from."""
