-- What is under way or could be: then time is not skipped. A task that waits for a person, a signal or a child run is not
-- under way; one that an agent, the fleet or a message's receiver has, is.
-- name: busy
select 'a task runs' as reason from afl_tasks where state = 'running'
union all
select 'a task waits for a worker' from afl_tasks where state = 'pending' and hold = '' and not_before <= {now}
union all
select 'a task was lost' from afl_tasks where state = 'pending' and hold in ('timeout', 'poisoned')
union all
select 'a task runs elsewhere' from afl_tasks where state = 'pending' and hold = 'elsewhere'
    and substr(via, 1, 6) not in ('human:', 'signal') and substr(via, 1, 4) <> 'run:' and not_before <= {now}
union all
select 'a signal waits for a worker' from afl_signals s
where s.task_id = '' and exists (
    select 1 from afl_tasks t
    where t.workflow_id = s.workflow_id and t.state = 'pending' and t.hold = 'elsewhere' and t.via = 'signal:' || s.name)
union all
select 'a run waits for a worker' from afl_runs where state in ('created', 'running') and settled = 0
union all
select 'a result waits for a worker' from afl_events e
where e.event_type = 'StepContinue' and exists (
    select 1 from afl_runs r where r.workflow_id = e.workflow_id and r.state in ('created', 'running'))
limit 1

-- What is due by now happens without a change of the clock.
-- name: next_due
select min(due) - {now} as wait from (
    select min(deadline) as due from afl_tasks
    where state = 'pending' and hold in ('timer', 'elsewhere') and deadline > {now}
    union all
    select min(not_before) from afl_tasks
    where state = 'pending' and hold in ('', 'concurrency', 'elsewhere') and not_before > {now}
    union all
    select min(lease_until) from afl_tasks where state = 'pending' and hold = 'elsewhere' and lease_until > {now}
) as times

-- name: next_schedule
select min(look) - :wall as wait from schedule where part = 'runtime' and look > :wall

-- name: due_task_lists
select distinct task_list_name as name from afl_tasks
where state = 'pending' and hold = '' and not_before > 0 and not_before <= {now}

-- Who holds something keeps it for as long as before, and a handler that runs has as much time left.
-- name: move_tasks
update afl_tasks set lease_until = case when lease_until = 0 then 0 else lease_until + :ms end,
    lock_until = case when lock_until = 0 then 0 else lock_until + :ms end,
    deadline = case when deadline = 0 then 0 else deadline + :ms end
where state = 'running'
-- name: move_locks
update afl_locks set expires_at = expires_at + :ms
-- name: move_servers
update afl_servers set ping_time = ping_time + :ms
