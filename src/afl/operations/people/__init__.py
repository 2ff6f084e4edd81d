"""What waits for a person.

approvals     the list, one with its form, the answers; approval_history: those that are over
questions     tasks that wait for a person as people see them
forms         typed forms of facets and workflows, and what is written into them; form_making, form_fields: their parts
"""
