"""Who does the work.

workers       servers: liveness, handlers, load; task_queue: tasks; timetable: schedules
service       an agent or runner as a process; offers: what modules offer; hosting: bridges and agents of a process
embedding     one call for programs that use AgentFlow as a library
"""
