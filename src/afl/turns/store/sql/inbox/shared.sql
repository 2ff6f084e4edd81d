-- name: put
insert into {schema:state}agent_inbox (
    inbox_id, project_id, agent_id, worker_target, channel_id, message_type, enqueue_mode, correlation_id,
    agent_turn_id, turn_epoch, context_headers, payload, status, next_retry_at, created_at
) values (
    :inbox, :project, :agent, :target, :channel, :type, :mode, :correlation, :turn, :epoch, :headers, :payload,
    :status, {now}, {now}
) on conflict do nothing

-- name: read_row
select * from {schema:state}agent_inbox where project_id = :project and inbox_id = :inbox

-- name: turn_row
select * from {schema:state}agent_inbox
where project_id = :project and inbox_id = :turn and message_type in ('turn', 'ui_action')

-- name: enqueued_row
select * from {schema:state}agent_inbox
where project_id = :project and message_type = :type and correlation_id = :correlation
    and message_type in ('turn', 'ui_action', 'stop')

-- name: rows_of_agent
select * from {schema:state}agent_inbox where (project_id = :project and agent_id = :agent) is true
order by position desc limit :limit

-- name: report_row
select * from {schema:state}agent_inbox
where project_id = :project and correlation_id = :correlation and message_type in ('tool_result', 'timeout')

-- SQLite takes an index with a condition only for one that says the same in the same words: `status in (all that are
-- not done)` stands beside what is wanted of it, here and elsewhere.

-- name: next_queued
select * from {schema:state}agent_inbox
where project_id = :project and agent_id = :agent and status = 'queued'
    and status in ('queued', 'pending', 'deferred', 'processing')
order by position limit 1 {for_update}

-- `is true` keeps PostgreSQL from the index of all that wait when it is told which row.

-- name: promote
update {schema:state}agent_inbox set status = 'pending', turn_epoch = :epoch, next_retry_at = {now}
where project_id = :project and inbox_id = :inbox and (status = 'queued') is true

-- The rows are chosen in a common table: PostgreSQL may execute a subquery more than once, and then lock more rows than its limit.

-- name: claim
with chosen as {materialized} (
    select position from {schema:state}agent_inbox
    where worker_target = :target and status in ('pending', 'deferred') and next_retry_at <= (select {now})
    order by next_retry_at, position limit :limit {skip_locked}
)
update {schema:state}agent_inbox set status = 'processing', claimed_by = :owner, processed_at = {now}
where position in (select position from chosen)
returning *

-- name: claim_of_agent
with chosen as {materialized} (
    select position from {schema:state}agent_inbox
    where project_id = :project and agent_id = :agent and status in ('pending', 'deferred')
        and status in ('queued', 'pending', 'deferred', 'processing') and next_retry_at <= {now}
    order by next_retry_at, position limit :limit {skip_locked}
)
update {schema:state}agent_inbox set status = 'processing', claimed_by = :owner, processed_at = {now}
where position in (select position from chosen)
returning *

-- name: close
update {schema:state}agent_inbox set
    status = :status, claimed_by = '', archived_at = {now}, last_error = coalesce(:error, last_error)
where project_id = :project and inbox_id = :inbox and status not in ('consumed', 'error', 'skipped')

-- name: defer
update {schema:state}agent_inbox set
    status = 'deferred', claimed_by = '', processed_at = null, retry_count = retry_count + 1,
    next_retry_at = {now} + :delay_ms, defer_reason = :reason
where project_id = :project and inbox_id = :inbox and (status in ('pending', 'processing', 'deferred')) is true
returning *

-- name: release
update {schema:state}agent_inbox set status = 'pending', claimed_by = '', processed_at = null
where status in ('queued', 'pending', 'deferred', 'processing') and status = 'processing' and claimed_by = :owner
returning *

-- name: requeue_stale
with chosen as {materialized} (
    select position from {schema:state}agent_inbox
    where status in ('queued', 'pending', 'deferred', 'processing') and status = 'processing'
        and (processed_at < {now} - :older_ms or claimed_by {in:dead})
    order by processed_at limit :limit {skip_locked}
)
update {schema:state}agent_inbox set status = 'pending', claimed_by = '', processed_at = null
where position in (select position from chosen)
returning *

-- name: claimers
select distinct claimed_by from {schema:state}agent_inbox
where status in ('queued', 'pending', 'deferred', 'processing') and status = 'processing'

-- name: is_due
select coalesce(min(next_retry_at) <= {now}, false) as due from {schema:state}agent_inbox
where worker_target {in:targets} and status in ('pending', 'deferred')

-- name: due_agents
select distinct project_id, agent_id, channel_id, worker_target from {schema:state}agent_inbox
where status in ('queued', 'pending', 'deferred', 'processing') and status in ('pending', 'deferred')
    and next_retry_at <= {now} - :older_ms
limit :limit

-- name: open_rows
select count(*) as open from {schema:state}agent_inbox
where project_id = :project and agent_id = :agent and status in ('pending', 'deferred', 'processing')
    and status in ('queued', 'pending', 'deferred', 'processing') and inbox_id <> :excluding
