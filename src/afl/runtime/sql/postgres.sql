-- Whoever writes a row right now renews or ends it: waiting for that could only end in a deadlock with a commit.
-- name: renew_runs
update afl_runs set lease_until = {now} + :lease_ms
where workflow_id in (
    select workflow_id from afl_runs
    where state in ('created', 'running') and owner = :owner and (:every = 1 or workflow_id {in:ids})
    for update skip locked)
returning workflow_id
-- name: renew_tasks
with mine as materialized (
    select seq, uuid, epoch from afl_tasks
    where owner = :owner and state = 'running' and (:every = 1 or uuid {in:ids})
), free as materialized (
    select t.seq from afl_tasks t where t.seq in (select seq from mine) and t.owner = :owner and t.state = 'running'
    for update of t skip locked
), renewed as (
    update afl_tasks set
        lease_until = case when lease_until = 0 then 0 else {greatest}(lease_until, {now} + :lease_ms) end,
        lock_until = case when lock_until = 0 then 0 else {greatest}(lock_until, {now} + :lock_ms) end
    where seq in (select seq from free)
)
select uuid, epoch from mine
-- name: upsert_task
with saved as (
    insert into afl_tasks (
        uuid, name, short_name, runner_id, workflow_id, flow_id, step_id, state, created, updated, error, task_list_name,
        data_type, data, priority, owner, epoch, lease_until, started, deliveries, deaths, result, timeout_ms, retry,
        concurrency_key, concurrency_limit, hold, not_before, deadline, failures, lock_until, last_owner
    ) values (
        :uuid, :name, :short_name, :runner_id, :workflow_id, :flow_id, :step_id, :state, :created, :updated, :error,
        :task_list_name, :data_type, :data, :priority, :owner, :epoch, :lease_until, :started, :deliveries, :deaths, :result,
        :timeout_ms, :retry, :concurrency_key, :concurrency_limit, :hold, :not_before, :deadline, :failures, :lock_until,
        :last_owner
    ) on conflict (uuid) do update set
        name = excluded.name, short_name = excluded.short_name, runner_id = excluded.runner_id,
        workflow_id = excluded.workflow_id, flow_id = excluded.flow_id, step_id = excluded.step_id,
        state = excluded.state, created = excluded.created, updated = excluded.updated, error = excluded.error,
        task_list_name = excluded.task_list_name, data_type = excluded.data_type, data = excluded.data,
        priority = excluded.priority, owner = excluded.owner, epoch = excluded.epoch,
        lease_until = excluded.lease_until, started = excluded.started, deliveries = excluded.deliveries,
        deaths = excluded.deaths, result = excluded.result, timeout_ms = excluded.timeout_ms, retry = excluded.retry,
        concurrency_key = excluded.concurrency_key, concurrency_limit = excluded.concurrency_limit, hold = excluded.hold,
        not_before = excluded.not_before, deadline = excluded.deadline, failures = excluded.failures,
        lock_until = excluded.lock_until, last_owner = excluded.last_owner
    returning seq
)
select pg_notify('afl_doorbell', topic) from saved, unnest(:topics::text[]) as topic
-- name: lock_key
select pg_advisory_xact_lock(hashtextextended(:key, 7))
-- name: commit_changes
select afl_commit_1(
    :run::jsonb, :new, :lease_ms, :over, :steps::jsonb, :old_steps::jsonb, :consumed, :events::jsonb, :tasks::jsonb,
    :policies::jsonb, :closed::jsonb, :logs::jsonb, :topics
) as held
-- name: commit_all
select afl_commit_all_1(:batch::jsonb)
