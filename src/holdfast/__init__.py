"""Holdfast: durable execution for agents and workflows."""
