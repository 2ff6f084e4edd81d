"""The fleet.

fleet         workflows, runs and agents of a principal; fleet_view: as plain data; fleet_overview: all at a glance
fleet_dag     a run's tasks as a tree; fleet_follow: a run as it goes on; fleet_log: its last lines; fleet_search
fleet_setup   first folder, keys, settings; fleet_processes: principal and agent
"""
