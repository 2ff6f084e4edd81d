-- What is old is found by an index. Runs before tasks, as commits lock them. The checks went before, for their price.

create index afl_runs_ended on afl_runs (ended) where ended > 0;
create index afl_tasks_loose on afl_tasks (updated)
    where step_id = '' and state not in ('pending', 'running');
alter table afl_tasks drop constraint if exists afl_tasks_state_check;
alter table afl_tasks drop constraint if exists afl_tasks_hold_check;
