-- One statement is one round trip and one transaction. The fence comes first: when the run's epoch has passed on, or a
-- task that is to be closed is no longer held, `fence` has no row, and without it no other part has an effect.
-- Rows travel as JSON, which the server turns into rows of its tables.

-- name: commit_changes
with leased as (
    select {now} + :lease_ms as until
),
closing as (select * from json_populate_recordset(null::afl_tasks, :closed::json)),
held as (
    select count(*) as found from (
        select 1 from closing c join afl_tasks t on t.uuid = c.uuid
        where c.owner = '' or (t.state = 'running' and t.owner = c.owner and t.epoch = c.epoch) for update of t
    ) as locked
),
fence as (
    insert into afl_runs
    select r.* from held, leased, json_populate_record(
        null::afl_runs, jsonb_set(:run::jsonb, '{lease_until}', to_jsonb(leased.until))::json) as r
    where held.found = :closing
    on conflict (workflow_id) do update set
        state = excluded.state, outputs = excluded.outputs, error = excluded.error, iterations = excluded.iterations,
        waiting = excluded.waiting, settled = excluded.settled, updated = excluded.updated, ended = excluded.ended,
        owner = excluded.owner, lease_until = case when excluded.owner = '' then 0 else excluded.lease_until end
    where afl_runs.epoch = excluded.epoch
    returning 1
),
new_steps as (
    insert into afl_steps select s.* from fence, json_populate_recordset(null::afl_steps, :steps::json) as s
),
old_steps as (
    update afl_steps set state = s.state, params = s.params, returns = s.returns, error = s.error,
        progress = s.progress, extra = s.extra, ended = s.ended
    from fence, json_populate_recordset(null::afl_steps, :old_steps::json) as s where afl_steps.id = s.id
),
consumed as (
    delete from afl_events using fence where id = any(:consumed)
),
events as (
    insert into afl_events select e.* from fence, json_populate_recordset(null::afl_events, :events::json) as e
    on conflict (id) do update set state = excluded.state, payload = excluded.payload
),
new_tasks as (
    insert into afl_tasks (
        uuid, name, short_name, runner_id, workflow_id, flow_id, step_id, state, created, updated, task_list_name,
        data_type, data, priority, owner, epoch, lease_until, started, deliveries, deaths
    )
    select t.uuid, t.name, t.short_name, t.runner_id, t.workflow_id, t.flow_id, t.step_id, t.state, t.created,
        t.updated, t.task_list_name, t.data_type, t.data, t.priority, t.owner, t.epoch,
        case when t.owner = '' then 0 else leased.until end, t.started, t.deliveries, t.deaths
    from fence, leased, json_populate_recordset(null::afl_tasks, :tasks::json) as t
),
old_tasks as (
    update afl_tasks set state = c.state, error = c.error, updated = c.updated
    from fence, closing c where afl_tasks.uuid = c.uuid and afl_tasks.state in ('pending', 'running')
),
logs as (
    insert into afl_logs select l.* from fence, json_populate_recordset(null::afl_logs, :logs::json) as l
),
runner as (
    update afl_runners set state = :over, end_time = :ended, duration = :ended - start_time
    from fence where :over <> '' and uuid = :runner_id
)
select count(*) as held from fence
