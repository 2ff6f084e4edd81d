"""The protocol of turns: subjects, headers, payloads, events and transitions."""
