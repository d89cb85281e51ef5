"""Drives runs through the ports: mailboxes, attempts, journals, the sweep.

Never here: a rule (core), an adapter (compose names them), a clock or an id that did not come through a port.
"""
