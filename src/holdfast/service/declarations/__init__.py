"""The commands and queries, each declared once with its fields, its grant and its answer.

Never here: the code behind one (handlers).
"""
