"""Calling tools: who may call which, with what, and what became of it.

Never here: the engine, a store, a model.
"""
