"""Sources and workflows before they run.

sources       files and texts to compile; source_text: a text that came over the wire
compilation   sources -> findings and a compiled program; formatting: sources in the standard form
agents        a module's handlers
inputs        the inputs of a run, from text and files; starting: the form of a source's workflow
library       workflows known by name; workflow_signature: what they take and give; program_shelf: programs kept at hand
submission    a run for whichever server takes it
"""
