"""Why something does not move.

why           the answer for an id; subjects: what an id means; snapshot: what the reasons read
reasons       every reason with its code; run_standing, step_reasons, task_reasons, elsewhere_reasons, server_reasons
              and staffing find them
"""
