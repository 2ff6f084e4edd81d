-- name: store_clock
select {now} as moment

-- name: insert_run
insert into fleet_runs (
    run_id, workflow_id, workflow_name, workflow, params, instance_id, origin, status, requeues, created_at,
    needs
) values (
    :run_id, :workflow_id, :workflow_name, :workflow, :params, :instance_id, :origin, :status, :requeues, :created_at,
    :needs
) on conflict (run_id) do nothing
-- name: adopt_run
insert into fleet_runs (
    run_id, workflow_id, workflow_name, workflow, params, instance_id, origin, status, agent_id, incarnation, old, epoch,
    lease_until, requeues, created_at, started_at
) values (
    :run_id, :workflow_id, :workflow_id, '{}', '{}', :instance_id, 'agent', 'RUNNING', :agent_id, :incarnation, 1, 1,
    :lease_until, 0, :at, :at
) on conflict (run_id) do nothing
-- name: get_run
select * from fleet_runs where run_id = :run_id
-- name: lock_run
select * from fleet_runs where run_id = :run_id {for_update}
-- name: has_open_run
select 1 as found from fleet_runs
where workflow_id = :workflow_id and status in ('PENDING', 'WAITING', 'RUNNING') limit 1 {for_update}
-- name: claim
update fleet_runs set agent_id = :agent_id, incarnation = :incarnation, old = :old, epoch = epoch + 1,
    lease_until = :lease_until, version = version + 1
where number = (
    select number from fleet_runs where status = 'PENDING' and incarnation = '' and (:old = 0 or needs = '')
    order by number limit 1 {skip_locked})
returning *
-- name: claim_again
update fleet_runs set epoch = epoch + 1, lease_until = :lease_until, version = version + 1
where number = (
    select number from fleet_runs
    where incarnation = :incarnation and incarnation <> '' and status = 'PENDING' and not (run_id {in:held})
    order by number limit 1 {skip_locked})
returning *
-- name: unclaim
update fleet_runs set incarnation = '', lease_until = null, epoch = epoch + 1, version = version + 1
where run_id = :run_id and epoch = :epoch and status = 'PENDING' and incarnation <> ''
-- name: renew
update fleet_runs set lease_until = {greatest}(lease_until, :lease_until)
where run_id = :run_id and epoch = :epoch and incarnation <> ''
-- name: renew_old
update fleet_runs set lease_until = {greatest}(lease_until, :lease_until)
where incarnation = :incarnation and incarnation <> '' and status = 'RUNNING'
-- name: renew_all
update fleet_runs set lease_until = {greatest}(lease_until, :lease_until) where incarnation <> ''
-- name: expired
select * from fleet_runs where incarnation <> '' and lease_until < :moment order by +number limit :limit {skip_locked}
-- name: next_expiry
select min(lease_until) as moment from fleet_runs where incarnation <> ''
-- name: requeue
update fleet_runs set status = 'PENDING', agent_id = '', incarnation = '', lease_until = null, epoch = epoch + 1,
    requeued = :requeued, instance_id = run_id, old = 0, started_at = null, error = '', version = version + 1
where run_id = :run_id and epoch = :epoch
-- name: end_run
update fleet_runs set status = :status, incarnation = '', lease_until = null, error = :error,
    ended_at = :at, version = version + 1
where run_id = :run_id and epoch = :epoch
-- name: run_started
update fleet_runs set status = 'RUNNING', incarnation = :incarnation, agent_id = :agent_id,
    lease_until = {greatest}(coalesce(lease_until, 0), :lease_until), started_at = coalesce(started_at, :at),
    ended_at = null, error = '', version = version + 1
where run_id = :run_id and epoch = :epoch
-- name: bind_instance
update fleet_runs set instance_id = :instance_id, version = version + 1 where run_id = :run_id
-- name: oldest_old_fetch
select * from fleet_runs
where incarnation = :incarnation and incarnation <> '' and old = 1 and workflow_id = :workflow_id
    and status = 'PENDING' and instance_id = run_id
order by number limit 1 {for_update}
-- name: run_of_instance
select * from fleet_runs where instance_id = :instance_id and (:agent_id = '' or agent_id = :agent_id)
order by number desc limit 1 {for_update}
-- name: past_run_of_instance
select r.* from workflow_run_status s join fleet_runs r on r.run_id = s.run_id
where s.workflow_instance_id = :instance_id and s.agent_id = :agent_id
order by s.position desc limit 1
-- name: ask_cancel
update fleet_runs set cancel_reason = :reason, version = version + 1 where run_id = :run_id and cancel_reason is null
-- name: touch_run
update fleet_runs set version = version + 1 where run_id = :run_id
-- name: release_waiting
update fleet_runs set status = 'PENDING', version = version + 1
where number = (
        select number from fleet_runs where workflow_id = :workflow_id and status = 'WAITING' order by number limit 1)
    and not exists (
        select 1 from fleet_runs other
        where other.workflow_id = :workflow_id and other.status in ('PENDING', 'RUNNING'))
returning *

-- name: list_runs
select * from fleet_runs
where (:workflow_id = '' or workflow_id = :workflow_id) and (:agent_id = '' or agent_id = :agent_id)
    and (:any_status = 1 or status {in:statuses})
    and (:before = '' or number < (select number from fleet_runs where run_id = :before))
order by number desc limit :limit
-- name: list_runs_of_workflow
select * from fleet_runs
where workflow_id = :workflow_id and (:agent_id = '' or agent_id = :agent_id)
    and (:any_status = 1 or status {in:statuses})
    and (:before = '' or number < (select number from fleet_runs where run_id = :before))
order by number desc limit :limit
-- name: get_tasks
select * from fleet_tasks where run_id = :run_id order by coalesce(started_at, ended_at), task_id

-- name: put_task
insert into fleet_tasks (
    run_id, task_id, task_instance_id, epoch, status, attempt, exit_code, error, started_at, ended_at
) values (
    :run_id, :task_id, :task_instance_id, :epoch, :status, :attempt, :exit_code, :error, :started_at, :ended_at
) on conflict (run_id, task_id) do update set
    task_instance_id = excluded.task_instance_id, epoch = excluded.epoch, status = excluded.status,
    attempt = excluded.attempt, exit_code = excluded.exit_code, error = excluded.error,
    started_at = case when fleet_tasks.task_instance_id = excluded.task_instance_id
        then coalesce(excluded.started_at, fleet_tasks.started_at) else excluded.started_at end,
    ended_at = excluded.ended_at
-- name: crash_tasks
update fleet_tasks set status = 'CRASHED', ended_at = :at
where run_id = :run_id and status in ('PENDING', 'WAITING', 'RUNNING')
returning *
-- name: revive_tasks
update fleet_tasks set status = case when started_at is null then 'PENDING' else 'RUNNING' end, ended_at = null
where run_id = :run_id and epoch = :epoch and status = 'CRASHED'
-- name: clear_tasks
delete from fleet_tasks where run_id = :run_id

-- name: add_run_status
insert into workflow_run_status (
    workflow_id, workflow_instance_id, status, timestamp_ms, run_id, agent_id, epoch, late
) values (:workflow_id, :workflow_instance_id, :status, :timestamp_ms, :run_id, :agent_id, :epoch, :late)
returning position
-- name: add_task_status
insert into task_run_status (
    task_id, task_instance_id, workflow_instance_id, status, timestamp_ms, run_id, epoch, exit_code, late
) values (
    :task_id, :task_instance_id, :workflow_instance_id, :status, :timestamp_ms, :run_id, :epoch, :exit_code, :late)
-- name: set_latest
insert into fleet_latest (workflow_id, position) values (:workflow_id, :position)
on conflict (workflow_id) do update set position = excluded.position
-- name: recent_statuses
with latest as materialized (select position as seq from fleet_latest order by position desc limit 10)
select s.workflow_id, s.workflow_instance_id, s.status, s.timestamp_ms
from workflow_run_status s where s.position {seq_of:latest}
order by s.position desc

-- name: old_runs
select run_id from fleet_runs
where ended_at < :before and (status in ('COMPLETED', 'FAILED', 'CRASHED', 'CANCELED') and incarnation = '') is true
order by ended_at, number limit :limit {skip_locked}
-- name: instances_of
select instance_id from fleet_runs where run_id = :run_id
union
select workflow_instance_id as instance_id from workflow_run_status where run_id = :run_id
-- name: forget_lines
delete from fleet_log_blocks
where position in (select position from fleet_log_blocks where workflow_instance_id = :instance_id limit :limit)
-- name: forget_task_statuses
delete from task_run_status where run_id = :run_id
-- name: forget_run_statuses
delete from workflow_run_status
where run_id = :run_id and not exists (select 1 from fleet_latest l where l.position = workflow_run_status.position)
-- name: forget_run
delete from fleet_runs where run_id = :run_id

-- name: get_agents
select * from fleet_agents order by agent_id
-- name: running_by_agent
select agent_id, count(*) as running from fleet_runs where incarnation <> '' and status = 'RUNNING' group by agent_id
-- name: put_agent
insert into fleet_agents (agent_id, incarnation, slots, last_seen) values (:agent_id, :incarnation, :slots, :last_seen)
on conflict (agent_id) do update set
    incarnation = excluded.incarnation, slots = excluded.slots, last_seen = excluded.last_seen
-- name: drop_agent
delete from fleet_agents where agent_id = :agent_id

-- name: open_stream
insert into fleet_streams (incarnation, stream, acked) values (:incarnation, :stream, 0)
on conflict (incarnation, stream) do update set acked = fleet_streams.acked
returning acked
-- name: set_acked
update fleet_streams set acked = :acked where incarnation = :incarnation and stream = :stream

-- name: count_lines
insert into fleet_counters (name, value) values ('log_lines', :count)
on conflict (name) do update set value = fleet_counters.value + excluded.value
returning value
-- name: add_block
insert into fleet_log_blocks (
    position, last, workflow_id, workflow_name, workflow_instance_id, task_name, task_instance_id, timestamp_ms, level,
    lines
) values (
    :position, :last, :workflow_id, :workflow_name, :workflow_instance_id, :task_name, :task_instance_id, :timestamp_ms,
    :level, :lines)
-- name: blocks_between
select * from fleet_log_blocks where timestamp_ms >= :start and (timestamp_ms, position) < (:end, :before)
order by timestamp_ms desc, position desc limit :limit
-- name: blocks_of_workflow
select * from fleet_log_blocks
where workflow_id = :workflow_id and timestamp_ms >= :start and (timestamp_ms, position) < (:end, :before)
order by timestamp_ms desc, position desc limit :limit
-- name: blocks_of_instance
select * from fleet_log_blocks
where workflow_instance_id = :instance_id and timestamp_ms >= :start and (timestamp_ms, position) < (:end, :before)
    and (:workflow_id = '' or workflow_id = :workflow_id)
order by timestamp_ms desc, position desc limit :limit
-- name: blocks_after
select * from fleet_log_blocks
where position >= (select coalesce(max(position), 0) from fleet_log_blocks where position <= :after + 1)
    and last > :after and (:workflow_id = '' or workflow_id = :workflow_id)
    and (:task_instance_id = '' or task_instance_id = :task_instance_id) and (:level = '' or level = :level)
    and (timestamp_ms >= :start and timestamp_ms < :end) is true
order by position limit :limit
-- name: blocks_of_instance_after
select * from fleet_log_blocks
where workflow_instance_id = :instance_id and last > :after
    and (:workflow_id = '' or workflow_id = :workflow_id)
    and (:task_instance_id = '' or task_instance_id = :task_instance_id) and (:level = '' or level = :level)
    and timestamp_ms >= :start and timestamp_ms < :end
order by last limit :limit
-- name: blocks_before
select * from fleet_log_blocks
where last <= :before and position <= :before and (:workflow_id = '' or workflow_id = :workflow_id)
    and (:task_instance_id = '' or task_instance_id = :task_instance_id) and (:level = '' or level = :level)
    and (timestamp_ms >= :start and timestamp_ms < :end) is true
order by position desc limit :limit
-- name: blocks_of_instance_before
select * from fleet_log_blocks
where workflow_instance_id = :instance_id and last <= :before
    and (:workflow_id = '' or workflow_id = :workflow_id)
    and (:task_instance_id = '' or task_instance_id = :task_instance_id) and (:level = '' or level = :level)
    and timestamp_ms >= :start and timestamp_ms < :end
order by last desc limit :limit
-- name: lines_counted
select value from fleet_counters where name = 'log_lines'
