-- As before, with work that goes on elsewhere. The old ones stay for processes that have not been started anew yet.

create function afl_commit_2(
    p_run jsonb, p_new boolean, p_lease_ms bigint, p_over boolean, p_steps jsonb, p_old_steps jsonb,
    p_consumed text[], p_events jsonb, p_tasks jsonb, p_policies jsonb, p_elsewhere jsonb, p_closed jsonb, p_logs jsonb,
    p_topics text[]
) returns boolean language plpgsql as $body$
declare
    now_ms bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint;
    lease bigint := now_ms + p_lease_ms;
    run_lease bigint := case when p_run ->> 'owner' = '' then 0 else lease end;
    r jsonb;
begin
    if p_new then
        insert into afl_runs (
            workflow_id, workflow_name, program_hash, state, runner_id, flow_id, task_list, outputs, error,
            iterations, waiting, settled, created, updated, ended, owner, epoch, lease_until, reason
        ) values (
            p_run ->> 'workflow_id', p_run ->> 'workflow_name', p_run ->> 'program_hash', p_run ->> 'state',
            p_run ->> 'runner_id', p_run ->> 'flow_id', p_run ->> 'task_list',
            p_run ->> 'outputs', p_run ->> 'error', (p_run ->> 'iterations')::bigint,
            (p_run ->> 'waiting')::bigint, (p_run ->> 'settled')::bigint, (p_run ->> 'created')::bigint,
            (p_run ->> 'updated')::bigint, (p_run ->> 'ended')::bigint, p_run ->> 'owner',
            (p_run ->> 'epoch')::bigint, run_lease, p_run ->> 'reason'
        ) on conflict (workflow_id) do nothing;
    else
        update afl_runs set
            state = p_run ->> 'state', outputs = p_run ->> 'outputs', error = p_run ->> 'error',
            iterations = (p_run ->> 'iterations')::bigint, waiting = (p_run ->> 'waiting')::bigint,
            settled = (p_run ->> 'settled')::bigint, updated = (p_run ->> 'updated')::bigint,
            ended = (p_run ->> 'ended')::bigint, owner = p_run ->> 'owner', lease_until = run_lease,
            reason = p_run ->> 'reason'
        where workflow_id = p_run ->> 'workflow_id' and epoch = (p_run ->> 'epoch')::bigint;
    end if;
    if not found then
        return false;
    end if;
    if p_run ? 'inputs' then
        insert into afl_inputs (workflow_id, inputs) values (p_run ->> 'workflow_id', p_run ->> 'inputs');
    end if;
    if p_steps is not null then
        insert into afl_steps (
            id, workflow_id, object_type, state, statement_id, container_type, container_id, block_id, root_id,
            facet_name, params, returns, error, progress, extra, started, ended
        )
        select s ->> 'id', s ->> 'workflow_id', s ->> 'object_type', s ->> 'state', s ->> 'statement_id',
            s ->> 'container_type', s ->> 'container_id', s ->> 'block_id', s ->> 'root_id', s ->> 'facet_name',
            s ->> 'params', s ->> 'returns', s ->> 'error', s ->> 'progress', s ->> 'extra',
            (s ->> 'started')::bigint, (s ->> 'ended')::bigint
        from jsonb_array_elements(p_steps) as s;
    end if;
    -- Row by row: a plan for all of them at once is made when the tables are small, kept, and walks them when they are not.
    for r in select value from jsonb_array_elements(p_old_steps) loop
        update afl_steps set
            state = r ->> 'state', params = r ->> 'params', returns = r ->> 'returns', error = r ->> 'error',
            progress = r ->> 'progress', extra = r ->> 'extra', ended = (r ->> 'ended')::bigint
        where id = r ->> 'id';
    end loop;
    for r in select value from jsonb_array_elements(p_closed) loop
        update afl_tasks set state = r ->> 'state', error = r ->> 'error', result = r ->> 'result',
            updated = (r ->> 'updated')::bigint,
            hold = case when via = '' then hold when left(via, 6) = 'human:' then '' else 'elsewhere' end
        where uuid = r ->> 'uuid' and (
            (r ->> 'owner' = '' and state in ('pending', 'running'))
            or (state = 'running' and owner = r ->> 'owner' and epoch = (r ->> 'epoch')::bigint)
        );
        if not found and r ->> 'owner' <> '' then
            raise exception 'afl: fenced';
        end if;
    end loop;
    if p_consumed is not null then
        delete from afl_events where id = any(p_consumed);
    end if;
    if p_events is not null then
        insert into afl_events (id, step_id, workflow_id, state, event_type, payload)
        select e ->> 'id', e ->> 'step_id', e ->> 'workflow_id', e ->> 'state', e ->> 'event_type', e ->> 'payload'
        from jsonb_array_elements(p_events) as e
        on conflict (id) do update set state = excluded.state, payload = excluded.payload;
    end if;
    if p_tasks is not null then
        insert into afl_tasks (
            uuid, name, short_name, runner_id, workflow_id, flow_id, step_id, state, created, updated, error,
            task_list_name, data_type, data, priority, owner, epoch, lease_until, started, deliveries, deaths, result
        )
        select t ->> 'uuid', t ->> 'name', t ->> 'short_name', t ->> 'runner_id', t ->> 'workflow_id',
            t ->> 'flow_id', t ->> 'step_id', t ->> 'state', (t ->> 'created')::bigint, (t ->> 'updated')::bigint,
            t ->> 'error', t ->> 'task_list_name', t ->> 'data_type', t ->> 'data', (t ->> 'priority')::bigint,
            t ->> 'owner', (t ->> 'epoch')::bigint, case when t ->> 'owner' = '' then 0 else lease end,
            (t ->> 'started')::bigint, (t ->> 'deliveries')::bigint, (t ->> 'deaths')::bigint, t ->> 'result'
        from jsonb_array_elements(p_tasks) as t;
    end if;
    for r in select value from jsonb_array_elements(p_policies) loop
        update afl_tasks set timeout_ms = (r ->> 'timeout_ms')::bigint, retry = r ->> 'retry' where uuid = r ->> 'uuid';
    end loop;
    if p_elsewhere is not null then
        for r in select value from jsonb_array_elements(p_elsewhere) loop
            update afl_tasks set via = r ->> 'via', bridge = r ->> 'bridge', hold = 'elsewhere',
                patience_ms = (r ->> 'patience_ms')::bigint,
                deadline = case when timeout_ms = 0 then 0 else now_ms + timeout_ms end,
                lease_until = case when r ->> 'patience_ms' = '0' then 0 else now_ms + (r ->> 'patience_ms')::bigint end
            where uuid = r ->> 'uuid';
        end loop;
    end if;
    if p_logs is not null then
        -- Whoever follows a log reads on from a number: numbers must become visible in their order.
        perform pg_advisory_xact_lock(hashtextextended('logs:' || id, 7))
        from (select distinct l ->> 'runner_id' as id from jsonb_array_elements(p_logs) as l order by 1) as logs;
        insert into afl_logs (uuid, runner_id, position, time, record)
        select l ->> 'uuid', l ->> 'runner_id', (l ->> 'position')::bigint, (l ->> 'time')::bigint, l ->> 'record'
        from jsonb_array_elements(p_logs) as l;
    end if;
    if p_over and p_run ->> 'runner_id' <> '' then
        update afl_runners set state = p_run ->> 'state', end_time = (p_run ->> 'ended')::bigint,
            duration = (p_run ->> 'ended')::bigint - start_time, workflow_id = p_run ->> 'workflow_id'
        where uuid = p_run ->> 'runner_id';
    end if;
    if p_topics is not null then
        perform pg_notify('afl_doorbell', topic) from unnest(p_topics) as topic;
    end if;
    return true;
end
$body$;

-- Several commits in one round trip and one transaction: all of them, or none. JSON inside the JSON stays text.
create function afl_commit_all_2(p_batch jsonb) returns void language plpgsql as $body$
declare
    c jsonb;
begin
    for c in select value from jsonb_array_elements(p_batch) loop
        if not afl_commit_2(
            (c ->> 'run')::jsonb, (c ->> 'new')::boolean, (c ->> 'lease_ms')::bigint, (c ->> 'over')::boolean,
            (c ->> 'steps')::jsonb, (c ->> 'old_steps')::jsonb,
            case when c -> 'consumed' = 'null' then null
                else array(select jsonb_array_elements_text(c -> 'consumed')) end,
            (c ->> 'events')::jsonb, (c ->> 'tasks')::jsonb, (c ->> 'policies')::jsonb,
            (c ->> 'elsewhere')::jsonb, (c ->> 'closed')::jsonb, (c ->> 'logs')::jsonb,
            case when c -> 'topics' = 'null' then null
                else array(select jsonb_array_elements_text(c -> 'topics')) end
        ) then
            raise exception 'afl: fenced';
        end if;
    end loop;
end
$body$;
