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
    select t.seq from afl_tasks t where t.seq {seq_of:mine} and t.owner = :owner and t.state = 'running'
    for update of t skip locked
), renewed as (
    update afl_tasks set
        lease_until = case when lease_until = 0 then 0 else {greatest}(lease_until, {now} + :lease_ms) end,
        lock_until = case when lock_until = 0 then 0 else {greatest}(lock_until, {now} + :lock_ms) end
    where seq {seq_of:free}
)
select uuid, epoch from mine
-- name: lock_key
select pg_advisory_xact_lock(hashtextextended(:key, 7))
-- name: commit
select afl_commit_10(:batch::jsonb)
-- name: unwanted_children
select c.workflow_id from afl_runs c
where c.parent_step <> '' and c.parent_told = 1 and c.ended = 0 and c.on_parent_close = 'cancel' and not exists (
    select 1 from afl_runs p where p.workflow_id = split_part(c.parent_step, '/', 1) and p.ended = 0)
limit :limit

-- name: database_identity
select current_database()::text as name, pg_postmaster_start_time()::text as started
-- name: notify_topic
select pg_notify('afl_notify', :topic)
