-- What is old is found by an index. Runs before tasks, as commits lock them.

create index afl_runs_ended on afl_runs (ended) where ended > 0;
create index afl_tasks_loose on afl_tasks (updated)
    where step_id = '' and state in ('completed', 'failed', 'ignored', 'canceled');
