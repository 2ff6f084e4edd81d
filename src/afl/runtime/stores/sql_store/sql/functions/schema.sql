-- A commit is one call and so one round trip, one transaction: `afl_commit_10` writes one or many commits, all of them or none.
-- It takes the rows of all commits together, one statement for each table however many commits there are: that made a worker
-- with a long queue a third faster. Fences are counted: SQLSTATE AF001, which rolls everything back, when the epoch of a run has
-- passed on or a task that is to be closed is no longer held. Rows travel as arrays of their columns or as objects; those to be
-- updated stand under their ids. What is missing is no rows. Columns are read one by one: turning whole objects into records
-- looks up the type of every column at every call, which took longer than all the rest. Plans are made when the tables are
-- small, and kept: so rows are looked up by their ids, and nothing is joined; `enable_seqscan` is off for sessions behind a
-- pooler, on which nothing else is set.
-- The name carries a number: a changed function gets a new one, so that old processes keep theirs during an upgrade.

create function afl_commit_10(p jsonb) returns void language plpgsql set enable_seqscan = off as $body$
declare
    p_runs jsonb := p -> 'runs';
    p_old_steps jsonb := p -> 'old_steps';
    p_over jsonb := p -> 'over';
    p_tags jsonb := p -> 'tags';
    p_closed jsonb := p -> 'closed';
    p_policies jsonb := p -> 'policies';
    p_elsewhere jsonb := p -> 'elsewhere';
    now_ms bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint;
    lease bigint := now_ms + (p ->> 'lease_ms')::bigint;
    run_lease bigint := now_ms + (p ->> 'run_lease_ms')::bigint;
    written bigint;
    added record;
    removal jsonb;
    gone text[];
begin
    if p ? 'new_runs' then
        insert into afl_runs (
            workflow_id, workflow_name, program_hash, state, runner_id, flow_id, task_list, outputs, error,
            iterations, waiting, settled, created, updated, ended, owner, epoch, lease_until, reason, name, tags, origin
        )
        select r ->> 'workflow_id', r ->> 'workflow_name', r ->> 'program_hash', r ->> 'state', r ->> 'runner_id',
            r ->> 'flow_id', r ->> 'task_list', r ->> 'outputs', r ->> 'error', (r ->> 'iterations')::bigint,
            (r ->> 'waiting')::bigint, (r ->> 'settled')::bigint, (r ->> 'created')::bigint, (r ->> 'updated')::bigint,
            (r ->> 'ended')::bigint, r ->> 'owner', (r ->> 'epoch')::bigint,
            case when r ->> 'owner' = '' then 0 else run_lease end, r ->> 'reason', r ->> 'name', r ->> 'tags', r ->> 'origin'
        from jsonb_array_elements(p -> 'new_runs') as r
        on conflict (workflow_id) do nothing;
        get diagnostics written = row_count;
        if written < jsonb_array_length(p -> 'new_runs') then
            raise exception using errcode = 'AF001',
                message = format('run %s was taken over; nothing was written', p -> 'new_runs' -> 0 ->> 'workflow_id');
        end if;
    end if;
    if p_runs is not null then
        update afl_runs as r set
            state = p_runs -> r.workflow_id ->> 'state', outputs = p_runs -> r.workflow_id ->> 'outputs',
            error = p_runs -> r.workflow_id ->> 'error', iterations = (p_runs -> r.workflow_id ->> 'iterations')::bigint,
            waiting = (p_runs -> r.workflow_id ->> 'waiting')::bigint,
            settled = (p_runs -> r.workflow_id ->> 'settled')::bigint,
            updated = (p_runs -> r.workflow_id ->> 'updated')::bigint, ended = (p_runs -> r.workflow_id ->> 'ended')::bigint,
            owner = p_runs -> r.workflow_id ->> 'owner',
            lease_until = case when p_runs -> r.workflow_id ->> 'owner' = '' then 0 else run_lease end,
            reason = p_runs -> r.workflow_id ->> 'reason'
        where r.workflow_id = any(array(select jsonb_object_keys(p_runs)))
            and r.epoch = (p_runs -> r.workflow_id ->> 'epoch')::bigint;
        get diagnostics written = row_count;
        if written < (p ->> 'run_count')::bigint then
            raise exception using errcode = 'AF001',
                message = format('run %s was taken over; nothing was written', (
                    select key from jsonb_object_keys(p_runs) as key where not exists (
                        select 1 from afl_runs where workflow_id = key and epoch = (p_runs -> key ->> 'epoch')::bigint
                    ) limit 1
                ));
        end if;
    end if;
    if p ? 'children' then
        insert into afl_runs (
            workflow_id, workflow_name, program_hash, state, runner_id, flow_id, task_list, outputs, error,
            iterations, waiting, settled, created, updated, ended, owner, epoch, lease_until, reason,
            parent_step, on_parent_close, parent_told, name, tags
        )
        select r ->> 'workflow_id', r ->> 'workflow_name', r ->> 'program_hash', r ->> 'state', r ->> 'runner_id',
            r ->> 'flow_id', r ->> 'task_list', r ->> 'outputs', r ->> 'error', 0, 0, 0, (r ->> 'created')::bigint,
            (r ->> 'updated')::bigint, 0, '', 0, 0, '', r ->> 'parent_step', r ->> 'on_parent_close',
            (r ->> 'parent_told')::bigint, r ->> 'name', r ->> 'tags'
        from jsonb_array_elements(p -> 'children') as r
        on conflict (workflow_id) do update set parent_told = excluded.parent_told
        where afl_runs.parent_step = excluded.parent_step;
        get diagnostics written = row_count;
        if written < jsonb_array_length(p -> 'children') then
            raise exception using errcode = 'AF001',
                message = 'the id of a child run is that of another run; nothing was written';
        end if;
    end if;
    if p ? 'inputs' then
        insert into afl_inputs (workflow_id, inputs) select key, value from jsonb_each_text(p -> 'inputs')
        on conflict (workflow_id) do nothing;
    end if;
    if p ? 'labels' then
        insert into afl_tags (tag, workflow_id) select l ->> 0, l ->> 1 from jsonb_array_elements(p -> 'labels') as l;
    end if;
    if p ? 'steps' then
        insert into afl_steps (
            id, workflow_id, object_type, state, statement_id, container_type, container_id, block_id, root_id,
            facet_name, params, returns, error, progress, extra, started, ended
        )
        select s ->> 0, s ->> 1, s ->> 2, s ->> 3, s ->> 4, s ->> 5, s ->> 6, s ->> 7, s ->> 8, s ->> 9,
            s ->> 10, s ->> 11, s ->> 12, s ->> 13, s ->> 14, (s ->> 15)::bigint, (s ->> 16)::bigint
        from jsonb_array_elements(p -> 'steps') as s;
    end if;
    if p_old_steps is not null then
        update afl_steps as s set
            state = p_old_steps -> s.id ->> 0, params = p_old_steps -> s.id ->> 1,
            returns = p_old_steps -> s.id ->> 2, error = p_old_steps -> s.id ->> 3,
            progress = p_old_steps -> s.id ->> 4, extra = p_old_steps -> s.id ->> 5,
            ended = (p_old_steps -> s.id ->> 6)::bigint
        where s.id = any(array(select jsonb_object_keys(p_old_steps)));
    end if;
    if p_closed is not null then
        with closed as (
            update afl_tasks as t set
                state = p_closed -> t.uuid ->> 'state', error = p_closed -> t.uuid ->> 'error',
                result = p_closed -> t.uuid ->> 'result', updated = (p_closed -> t.uuid ->> 'updated')::bigint,
                started = case when p_closed -> t.uuid ->> 'owner' = '' then t.started
                    else (p_closed -> t.uuid ->> 'started')::bigint end,
                host = p_closed -> t.uuid ->> 'host', pid = (p_closed -> t.uuid ->> 'pid')::bigint,
                hold = case when via = '' then hold when left(via, 6) in ('human:', 'signal') then '' else 'elsewhere' end
            where t.uuid = any(array(select jsonb_object_keys(p_closed))) and (
                (t.state in ('pending', 'running') and p_closed -> t.uuid ->> 'owner' = '')
                or (t.state = 'running' and t.owner = p_closed -> t.uuid ->> 'owner'
                    and t.epoch = (p_closed -> t.uuid ->> 'epoch')::bigint)
            )
            returning p_closed -> t.uuid ->> 'owner' <> '' as is_held
        )
        select count(*) into written from closed where is_held;
        if written < (p ->> 'held')::bigint then
            raise exception using errcode = 'AF001', message = 'a task is no longer held; nothing was written';
        end if;
    end if;
    if p ? 'attempts' then
        insert into afl_attempts (
            workflow_id, task_id, number, step_id, worker, outcome, host, pid, queued, started, ended, error_type, error,
            location, traceback, retry_ms
        )
        select a ->> 0, a ->> 1, (a ->> 2)::bigint, a ->> 3, a ->> 4, a ->> 5, a ->> 6, (a ->> 7)::bigint,
            (a ->> 8)::bigint, (a ->> 9)::bigint, (a ->> 10)::bigint, a ->> 11, a ->> 12, a ->> 13, a ->> 14,
            (a ->> 15)::bigint
        from jsonb_array_elements(p -> 'attempts') as a
        on conflict (workflow_id, task_id, number) do nothing;
    end if;
    if p ? 'consumed' then
        delete from afl_events where id = any(array(select jsonb_array_elements_text(p -> 'consumed')));
    end if;
    if p ? 'events' then
        insert into afl_events (id, step_id, workflow_id, state, event_type, payload)
        select e ->> 0, e ->> 1, e ->> 2, e ->> 3, e ->> 4, e ->> 5
        from jsonb_array_elements(p -> 'events') as e
        on conflict (id) do update set state = excluded.state, payload = excluded.payload;
    end if;
    if p ? 'tasks' then
        insert into afl_tasks (
            uuid, name, short_name, runner_id, workflow_id, flow_id, step_id, state, created, updated, error,
            task_list_name, data_type, data, priority, owner, epoch, lease_until, started, deliveries, deaths, result
        )
        select t ->> 'uuid', t ->> 'name', t ->> 'short_name', t ->> 'runner_id', t ->> 'workflow_id',
            t ->> 'flow_id', t ->> 'step_id', t ->> 'state', (t ->> 'created')::bigint, (t ->> 'updated')::bigint,
            t ->> 'error', t ->> 'task_list_name', t ->> 'data_type', t ->> 'data', (t ->> 'priority')::bigint,
            t ->> 'owner', (t ->> 'epoch')::bigint, case when t ->> 'owner' = '' then 0 else lease end,
            (t ->> 'started')::bigint, (t ->> 'deliveries')::bigint, (t ->> 'deaths')::bigint, t ->> 'result'
        from jsonb_array_elements(p -> 'tasks') as t;
    end if;
    if p_policies is not null then
        update afl_tasks as t set
            timeout_ms = (p_policies -> t.uuid ->> 'timeout_ms')::bigint, retry = p_policies -> t.uuid ->> 'retry',
            concurrency_key = p_policies -> t.uuid ->> 'concurrency_key',
            concurrency_limit = (p_policies -> t.uuid ->> 'concurrency_limit')::bigint,
            hold = p_policies -> t.uuid ->> 'hold',
            deadline = case when p_policies -> t.uuid ->> 'hold' <> 'timer' then 0
                when (p_policies -> t.uuid ->> 'deadline')::bigint > 0 then (p_policies -> t.uuid ->> 'deadline')::bigint
                else now_ms + (p_policies -> t.uuid ->> 'timeout_ms')::bigint end
        where t.uuid = any(array(select jsonb_object_keys(p_policies)));
    end if;
    if p_elsewhere is not null then
        update afl_tasks as t set
            via = p_elsewhere -> t.uuid ->> 'via', bridge = p_elsewhere -> t.uuid ->> 'bridge',
            hold = case when hold = '' then 'elsewhere' else hold end,
            patience_ms = (p_elsewhere -> t.uuid ->> 'patience_ms')::bigint,
            deadline = case when hold = '' and timeout_ms > 0 then now_ms + timeout_ms else 0 end,
            lease_until = case when hold = '' and (p_elsewhere -> t.uuid ->> 'patience_ms')::bigint > 0
                then now_ms + (p_elsewhere -> t.uuid ->> 'patience_ms')::bigint else 0 end
        where t.uuid = any(array(select jsonb_object_keys(p_elsewhere)));
    end if;
    if p ? 'published' then
        insert into afl_published (workflow_id, name, value, updated)
        select v ->> 'workflow_id', v ->> 'name', v ->> 'value', (v ->> 'updated')::bigint
        from jsonb_array_elements(p -> 'published') as v
        on conflict (workflow_id, name) do update set value = excluded.value, updated = excluded.updated;
    end if;
    if p_tags is not null then
        update afl_runs as r set tags = p_tags -> r.workflow_id ->> 'all'
        where r.workflow_id = any(array(select jsonb_object_keys(p_tags)));
        delete from afl_tags as t
        where t.workflow_id = any(array(select jsonb_object_keys(p_tags)))
            and p_tags -> t.workflow_id -> 'changed' ? split_part(t.tag, '=', 1);
        insert into afl_tags (tag, workflow_id)
        select changed.key || '=' || changed.value, run.key
        from jsonb_each(p_tags) as run, jsonb_each_text(run.value -> 'changed') as changed;
    end if;
    if p ? 'history' then
        for added in
            insert into afl_history (workflow_id, number, events)
            select h ->> 0, coalesce((select max(number) from afl_history where workflow_id = h ->> 0), 0) + 1, h ->> 1
            from jsonb_array_elements(p -> 'history') as h
            returning workflow_id, number
        loop
            if added.number % 1000 = 0 then
                delete from afl_history where workflow_id = added.workflow_id and number <= added.number - 10000;
            end if;
        end loop;
    end if;
    if p ? 'logs' then
        -- Whoever follows a log reads on from a number: numbers must become visible in their order.
        perform pg_advisory_xact_lock(hashtextextended('logs:' || id, 7))
        from (select distinct l ->> 1 as id from jsonb_array_elements(p -> 'logs') as l order by 1) as logs;
        insert into afl_logs (uuid, runner_id, position, time, record)
        select l ->> 0, l ->> 1, (l ->> 2)::bigint, (l ->> 3)::bigint, l ->> 4
        from jsonb_array_elements(p -> 'logs') as l;
    end if;
    if p ? 'removed' then
        for removal in select value from jsonb_array_elements(p -> 'removed') loop
            gone := array(select id from afl_steps where id >= removal ->> 'first' and id < removal ->> 'beyond');
            delete from afl_attempts
            where workflow_id = removal ->> 'workflow_id' and task_id = any(array(
                select uuid from afl_tasks where step_id = any(gone) and hold <> 'elsewhere'));
            delete from afl_tasks where step_id = any(gone) and hold <> 'elsewhere';
            delete from afl_events where workflow_id = removal ->> 'workflow_id' and step_id = any(gone);
            delete from afl_steps where id >= removal ->> 'first' and id < removal ->> 'beyond';
        end loop;
    end if;
    if p_over is not null then
        update afl_runners as n set state = p_over -> n.uuid ->> 'state', end_time = (p_over -> n.uuid ->> 'ended')::bigint,
            duration = (p_over -> n.uuid ->> 'ended')::bigint - start_time,
            workflow_id = p_over -> n.uuid ->> 'workflow_id'
        where n.uuid = any(array(select jsonb_object_keys(p_over)));
    end if;
    if p ? 'topics' then
        perform pg_notify('afl_notify', topic) from jsonb_array_elements_text(p -> 'topics') as topic;
    end if;
end
$body$;

-- PostgreSQL reads the text of a CHECK anew for every statement that writes a row: a tenth of what a small commit costs.
-- The states are those of the code's enumerations; where a check costs nothing, in SQLite, it stays.

alter table afl_runs drop constraint if exists afl_runs_state_check;
alter table afl_tasks drop constraint if exists afl_tasks_state_check;
alter table afl_tasks drop constraint if exists afl_tasks_hold_check;

-- A task that was claimed leaves a dead entry at the head of the queue's index, and every claim reads past those until the
-- server has cleaned up. By default it waits for a fifth of the table, which in a large one is for days.

alter table afl_tasks set (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02);
