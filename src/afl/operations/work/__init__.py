"""Who does the work: servers, tasks, schedules, the service of a process."""
