"""Channels of notifications: webhooks, mail and Slack; and the signatures of webhooks, also of those that come in.

Never here: which notifications there are, when one is sent again (core.nouns.notifications), an HTTP port.
"""
