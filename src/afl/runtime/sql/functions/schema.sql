-- A commit is one call and so one round trip, one transaction. The fence comes first: it answers false when the run's epoch
-- has passed on, and raises, so that all is undone, when a task that is to be closed is no longer held. Rows travel as
-- JSON, which the server turns into rows of its tables; null stands for no rows.
-- The name carries a number: a changed function gets a new one, so that old processes keep theirs during an upgrade.

create function afl_commit_1(
    p_run json, p_new boolean, p_lease_ms bigint, p_over boolean, p_steps json, p_old_steps json, p_consumed text[], p_events json,
    p_tasks json, p_closed json, p_logs json
) returns boolean language plpgsql as $body$
declare
    lease bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint + p_lease_ms;
    run afl_runs := json_populate_record(null::afl_runs, p_run);
    task afl_tasks;
begin
    run.lease_until := case when run.owner = '' then 0 else lease end;
    if p_new then
        insert into afl_runs values (run.*) on conflict (workflow_id) do nothing;
    else
        update afl_runs set
            state = run.state, outputs = run.outputs, error = run.error, iterations = run.iterations,
            waiting = run.waiting, settled = run.settled, updated = run.updated, ended = run.ended,
            owner = run.owner, lease_until = run.lease_until
        where workflow_id = run.workflow_id and epoch = run.epoch;
    end if;
    if not found then
        return false;
    end if;
    for task in select * from json_populate_recordset(null::afl_tasks, p_closed) loop
        update afl_tasks set state = task.state, error = task.error, updated = task.updated
        where uuid = task.uuid and (
            (task.owner = '' and state in ('pending', 'running'))
            or (state = 'running' and owner = task.owner and epoch = task.epoch)
        );
        if not found and task.owner <> '' then
            raise exception 'afl: fenced';
        end if;
    end loop;
    if p_steps is not null then
        insert into afl_steps select * from json_populate_recordset(null::afl_steps, p_steps);
    end if;
    if p_old_steps is not null then
        update afl_steps s set
            state = o.state, params = o.params, returns = o.returns, error = o.error, progress = o.progress,
            extra = o.extra, ended = o.ended
        from json_populate_recordset(null::afl_steps, p_old_steps) o where s.id = o.id;
    end if;
    if p_consumed is not null then
        delete from afl_events where id = any(p_consumed);
    end if;
    if p_events is not null then
        insert into afl_events select * from json_populate_recordset(null::afl_events, p_events)
        on conflict (id) do update set state = excluded.state, payload = excluded.payload;
    end if;
    if p_tasks is not null then
        insert into afl_tasks (
            uuid, name, short_name, runner_id, workflow_id, flow_id, step_id, state, created, updated, error,
            task_list_name, data_type, data, priority, owner, epoch, lease_until, started, deliveries, deaths
        )
        select uuid, name, short_name, runner_id, workflow_id, flow_id, step_id, state, created, updated, error,
            task_list_name, data_type, data, priority, owner, epoch, case when owner = '' then 0 else lease end,
            started, deliveries, deaths
        from json_populate_recordset(null::afl_tasks, p_tasks);
    end if;
    if p_logs is not null then
        insert into afl_logs select * from json_populate_recordset(null::afl_logs, p_logs);
    end if;
    if p_over and run.runner_id <> '' then
        update afl_runners set state = run.state, end_time = run.ended, duration = run.ended - start_time,
            workflow_id = run.workflow_id
        where uuid = run.runner_id;
    end if;
    return true;
end
$body$;
