"""Traces for others: the spans of runs in the words of a convention, as OTLP and for trace viewers, and their export.

Never here: how spans follow from a history (core.views.spans), metrics, logs.
"""
