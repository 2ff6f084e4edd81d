"""Alerts: messages to people outside, by Apprise, of approvals that wait for them and of runs that failed."""
