-- name: get_program
select compiled from afl_programs where hash = :hash
-- name: save_program
insert into afl_programs (hash, compiled) values (:hash, :compiled) on conflict (hash) do nothing

-- name: get_step
select * from afl_steps where id = :id
-- name: get_steps
select * from afl_steps where id {in:ids}
-- name: get_open_steps
select * from afl_steps
where workflow_id = :workflow_id and state <> 'state.statement.Complete' and state <> 'state.statement.Error'
order by started, id
-- name: get_steps_by_workflow
select * from afl_steps where workflow_id = :workflow_id order by started, id
-- name: get_steps_by_state
select * from afl_steps where state = :state order by started, id
-- name: get_lost_steps
with unheld as materialized (
    select workflow_id as id from afl_runs where state in ('created', 'running') and owner = ''
)
select s.* from afl_steps s
where s.workflow_id {id_of:unheld} and s.state = 'state.EventTransmit'
    and s.state <> 'state.statement.Complete' and s.state <> 'state.statement.Error'
    and not exists (select 1 from afl_tasks t where t.step_id = s.id {plain} and t.step_id <> '' and (t.state in ('pending', 'running')) is true)
    and not exists (
        select 1 from afl_events e where e.workflow_id = s.workflow_id and e.event_type = 'StepContinue' and e.step_id = s.id)
limit :limit
-- name: get_steps_by_block
select * from afl_steps where block_id = :block_id order by started, id
-- name: get_steps_by_container
select * from afl_steps where container_id = :container_id order by started, id
-- name: get_workflow_root
select * from afl_steps where workflow_id = :workflow_id and root_id is null and container_id is null
order by started, id limit 1
-- name: step_exists
select 1 as found from afl_steps
where statement_id = :statement_id and coalesce(block_id, '') = coalesce(cast(:block_id as text), '') limit 1
-- name: insert_step
insert into afl_steps (
    id, workflow_id, object_type, state, statement_id, container_type, container_id, block_id, root_id, facet_name,
    params, returns, error, progress, extra, started, ended
) values (
    :id, :workflow_id, :object_type, :state, :statement_id, :container_type, :container_id, :block_id, :root_id,
    :facet_name, :params, :returns, :error, :progress, :extra, :started, :ended
)
-- name: upsert_step
insert into afl_steps (
    id, workflow_id, object_type, state, statement_id, container_type, container_id, block_id, root_id, facet_name,
    params, returns, error, progress, extra, started, ended
) values (
    :id, :workflow_id, :object_type, :state, :statement_id, :container_type, :container_id, :block_id, :root_id,
    :facet_name, :params, :returns, :error, :progress, :extra, :started, :ended
) on conflict (id) do update set
    workflow_id = excluded.workflow_id, object_type = excluded.object_type, state = excluded.state,
    statement_id = excluded.statement_id, container_type = excluded.container_type,
    container_id = excluded.container_id, block_id = excluded.block_id, root_id = excluded.root_id,
    facet_name = excluded.facet_name, params = excluded.params, returns = excluded.returns, error = excluded.error,
    progress = excluded.progress, extra = excluded.extra, started = excluded.started, ended = excluded.ended
-- name: update_step
update afl_steps set
    state = :state, params = :params, returns = :returns, error = :error, progress = :progress, extra = :extra,
    ended = :ended
where id = :id
-- name: lock_step
select state from afl_steps where id = :id {for_update}
-- name: finish_step
update afl_steps set state = :state, returns = :returns, error = :error, extra = :extra, ended = :ended
where id = :id and (state = 'state.EventTransmit') is true

-- name: get_event
select * from afl_events where id = :id
-- name: get_events_by_workflow
select * from afl_events where workflow_id = :workflow_id order by id
-- name: get_tasks_without_event
select t.* from afl_tasks t left join afl_events e on e.id = t.uuid
where t.workflow_id = :workflow_id and t.workflow_id <> '' and t.step_id <> '' and e.id is null order by t.seq
-- name: get_marks
select * from afl_events where workflow_id = :workflow_id and event_type = 'StepContinue' order by id limit :limit
-- name: get_marks_of
select * from afl_events where workflow_id {in:ids} and event_type = 'StepContinue' limit :limit
-- name: insert_event
insert into afl_events (id, step_id, workflow_id, state, event_type, payload)
values (:id, :step_id, :workflow_id, :state, :event_type, :payload)
-- name: upsert_event
insert into afl_events (id, step_id, workflow_id, state, event_type, payload)
values (:id, :step_id, :workflow_id, :state, :event_type, :payload)
on conflict (id) do update set step_id = excluded.step_id, workflow_id = excluded.workflow_id,
    state = excluded.state, event_type = excluded.event_type, payload = excluded.payload
-- name: insert_mark
insert into afl_events (id, step_id, workflow_id, state, event_type, payload)
values (:id, :step_id, :workflow_id, :state, :event_type, :payload) on conflict (id) do nothing
-- name: delete_events
delete from afl_events where id {in:ids}

-- name: insert_signal
insert into afl_signals (workflow_id, id, name, value, created) values (:workflow_id, :id, :name, :value, :created)
-- name: get_signal
select * from afl_signals where workflow_id = :workflow_id and id = :id
-- name: count_unreceived
select count(*) as found from (
    select 1 from afl_signals where workflow_id = :workflow_id and name = :name and task_id = '' limit :most
) as unreceived
-- name: get_signals
select * from afl_signals where workflow_id = :workflow_id and task_id = '' and seq > :after order by seq limit :limit
-- name: get_signals_named
select * from afl_signals where workflow_id = :workflow_id and name = :name and task_id = '' and seq > :after
order by seq limit :limit
-- name: lock_signal
select 1 as found from afl_signals where workflow_id = :workflow_id and id = :id and (task_id = '') is true {for_update}
-- name: receive_signal
update afl_signals set task_id = :task_id where workflow_id = :workflow_id and id = :id and (task_id = '') is true
-- name: get_signal_tasks
select * from afl_tasks
where hold = 'elsewhere' and state = 'pending' and via = :via and workflow_id = :workflow_id order by seq limit :limit
-- name: get_receivable
select s.workflow_id, s.name from (select distinct workflow_id, name from afl_signals where task_id = '') as s
where exists (
    select 1 from afl_tasks t
    where t.hold = 'elsewhere' and t.state = 'pending' and t.via = 'signal:' || s.name and t.workflow_id = s.workflow_id)
limit :limit
-- name: get_receivable_of
select s.workflow_id, s.name from (
    select distinct workflow_id, name from afl_signals where workflow_id = :workflow_id and task_id = ''
) as s
where exists (
    select 1 from afl_tasks t
    where t.hold = 'elsewhere' and t.state = 'pending' and t.via = 'signal:' || s.name and t.workflow_id = s.workflow_id)
limit :limit

-- name: insert_attempt
insert into afl_attempts (
    workflow_id, task_id, number, step_id, worker, outcome, host, pid, queued, started, ended, error_type, error,
    location, traceback, retry_ms
) values (
    :workflow_id, :task_id, :number, :step_id, :worker, :outcome, :host, :pid, :queued, :started, :ended, :error_type,
    :error, :location, :traceback, :retry_ms
) on conflict (workflow_id, task_id, number) do nothing
-- name: get_failed_attempts
select * from afl_attempts
where workflow_id = :workflow_id and (:task_id = '' or task_id = :task_id)
order by workflow_id, task_id, number limit :limit
-- name: trim_attempts
delete from afl_attempts
where workflow_id = :workflow_id and task_id = :task_id and number > 1 and number <= :number
-- name: delete_run_attempts
delete from afl_attempts where workflow_id {in:ids}
-- name: delete_task_attempts
delete from afl_attempts where workflow_id = :workflow_id and task_id = :uuid

-- name: get_task
select * from afl_tasks where uuid = :uuid
-- name: get_task_by_step
select * from afl_tasks where step_id = :step_id and step_id <> '' order by seq desc limit 1
-- name: get_pending_tasks
select * from afl_tasks where state = 'pending' and task_list_name = :task_list order by priority desc, seq
-- name: get_tasks_by_workflow
select * from afl_tasks where workflow_id = :workflow_id and workflow_id <> '' order by seq
-- name: get_all_tasks
select * from afl_tasks order by seq desc limit :limit
-- What every task has; the rest are those of policies, and of what is done elsewhere.
-- part: task_columns
uuid, name, short_name, runner_id, workflow_id, flow_id, step_id, state, created, updated, error, task_list_name,
    data_type, data, priority, owner, epoch, lease_until, started, deliveries, deaths, result
-- part: task_values
:uuid, :name, :short_name, :runner_id, :workflow_id, :flow_id, :step_id, :state, :created, :updated, :error,
    :task_list_name, :data_type, :data, :priority, :owner, :epoch, :lease_until, :started, :deliveries, :deaths, :result
-- part: replaced_task
name = excluded.name, short_name = excluded.short_name, runner_id = excluded.runner_id,
    workflow_id = excluded.workflow_id, flow_id = excluded.flow_id, step_id = excluded.step_id,
    state = excluded.state, created = excluded.created, updated = excluded.updated, error = excluded.error,
    task_list_name = excluded.task_list_name, data_type = excluded.data_type, data = excluded.data,
    priority = excluded.priority, owner = excluded.owner, epoch = excluded.epoch,
    lease_until = excluded.lease_until, started = excluded.started, deliveries = excluded.deliveries,
    deaths = excluded.deaths, result = excluded.result
-- name: insert_task
insert into afl_tasks (
    {part:task_columns}
) values (
    :uuid, :name, :short_name, :runner_id, :workflow_id, :flow_id, :step_id, :state, :created, :updated, :error,
    :task_list_name, :data_type, :data, :priority, :owner, :epoch,
    case when :owner = '' then 0 else {now} + :lease_ms end, :started, :deliveries, :deaths, :result
)
-- name: set_policy
update afl_tasks set timeout_ms = :timeout_ms, retry = :retry, concurrency_key = :concurrency_key,
    concurrency_limit = :concurrency_limit, hold = :hold,
    deadline = case when :hold <> 'timer' then 0 when :deadline > 0 then :deadline else {now} + :timeout_ms end
where uuid = :uuid
-- name: set_elsewhere
update afl_tasks set via = :via, bridge = :bridge, patience_ms = :patience_ms,
    hold = case when hold = '' then 'elsewhere' else hold end,
    deadline = case when hold = '' and timeout_ms > 0 then {now} + timeout_ms else 0 end,
    lease_until = case when hold = '' and :patience_ms > 0 then {now} + :patience_ms else 0 end
where uuid = :uuid
-- name: upsert_task
insert into afl_tasks (
    {part:task_columns}, timeout_ms, retry,
    concurrency_key, concurrency_limit, hold, not_before, deadline, failures, lock_until, last_owner, via, bridge,
    patience_ms, expiries
) values (
    {part:task_values},
    :timeout_ms, :retry, :concurrency_key, :concurrency_limit, :hold, :not_before, :deadline, :failures, :lock_until,
    :last_owner, :via, :bridge, :patience_ms, :expiries
) on conflict (uuid) do update set
    {part:replaced_task}, timeout_ms = excluded.timeout_ms, retry = excluded.retry,
    concurrency_key = excluded.concurrency_key, concurrency_limit = excluded.concurrency_limit, hold = excluded.hold,
    not_before = excluded.not_before, deadline = excluded.deadline, failures = excluded.failures,
    lock_until = excluded.lock_until, last_owner = excluded.last_owner, via = excluded.via, bridge = excluded.bridge,
    patience_ms = excluded.patience_ms, expiries = excluded.expiries
{notifying:topics}
-- name: upsert_plain_task
insert into afl_tasks (
    {part:task_columns}
) values (
    {part:task_values}
) on conflict (uuid) do update set
    {part:replaced_task}, timeout_ms = 0, retry = null, concurrency_key = '',
    concurrency_limit = 0, hold = '', not_before = 0, deadline = 0, failures = 0, lock_until = 0, last_owner = '',
    via = '', bridge = null, patience_ms = 0, expiries = 0
{notifying:topics}
-- The condition of the index afl_tasks_special, without which no planner takes it.
-- part: special_tasks
(concurrency_key <> '' or hold <> '' or not_before > 0) and state in ('pending', 'running')
-- What a TaskFilter asks for. Each query below finds the tasks by an index of its own.
-- part: fitting_tasks
(:state = '' or state = :state) and (:name = '' or name = :name or short_name = :name)
    and (:task_list = '' or task_list_name = :task_list) and (:hold = '' or hold = :hold)
    and (:owner = '' or owner = :owner) and (:key = '' or concurrency_key = :key)
    and (:workflow_id = '' or workflow_id = :workflow_id) and (:prefix = '' or (uuid >= :prefix and uuid < :beyond))
    and via >= :via_from and via < :via_beyond
    and (:after = '' or seq > (select a.seq from afl_tasks a where a.uuid = :after))
-- name: find_tasks
select * from afl_tasks where {part:fitting_tasks} order by seq limit :limit
-- name: find_tasks_named
select * from afl_tasks where uuid >= :prefix and uuid < :beyond and {part:fitting_tasks} order by +seq limit :limit
-- name: find_tasks_of_run
select * from afl_tasks where workflow_id = :workflow_id and workflow_id <> '' and {part:fitting_tasks} order by +seq limit :limit
-- name: find_tasks_elsewhere
select * from afl_tasks
where hold = 'elsewhere' and state = :state and {part:fitting_tasks}
    and seq > case when :after = '' then 0 else (select a.seq from afl_tasks a where a.uuid = :after) end
order by +seq limit :limit
-- name: find_running_tasks
select * from afl_tasks where state = 'running' and {part:fitting_tasks} order by +seq limit :limit
-- name: find_held_tasks
select * from afl_tasks
where {part:special_tasks} and state = 'pending' and hold <> '' and {part:fitting_tasks} order by +seq limit :limit
-- name: find_tasks_on_hold
select * from afl_tasks
where {part:special_tasks} and state = 'pending' and hold = :hold and {part:fitting_tasks} order by +seq limit :limit
-- name: find_pending_tasks
select * from afl_tasks where state = 'pending' and hold = '' and {part:fitting_tasks} order by +seq limit :limit
-- name: next_due
select min(not_before) - {now} as due from afl_tasks
where {part:special_tasks}
    and state = 'pending' and hold = '' and not_before > {now}
    and (cast(:task_list as text) is null or task_list_name = cast(:task_list as text))
    and (cast(:workflow_id as text) is null or workflow_id = cast(:workflow_id as text))
-- name: publish
insert into afl_published (workflow_id, name, value, updated) values (:workflow_id, :name, :value, :updated)
on conflict (workflow_id, name) do update set value = excluded.value, updated = excluded.updated
-- name: get_published
select name, value, updated from afl_published where workflow_id = :workflow_id order by name
-- name: append_history
insert into afl_history (workflow_id, number, events)
select :workflow_id, coalesce(max(number), 0) + 1, :events from afl_history where workflow_id = :workflow_id
returning number
-- name: trim_history
delete from afl_history where workflow_id = :workflow_id and number <= :before
-- name: get_history
select number, events from afl_history where workflow_id = :workflow_id and number > :after order by number limit :limit
-- name: next_timer
select min(deadline) - {now} as due from afl_tasks where hold = 'timer' and deadline > 0 and state = 'pending'
-- name: due_timers
select * from afl_tasks where hold = 'timer' and deadline > 0 and state = 'pending' and deadline <= {now}
order by deadline limit :limit
-- name: get_held_back
select * from afl_tasks
where {part:special_tasks}
    and state = 'pending' and (workflow_id = :workflow_id) is true
order by +seq
-- name: any_pending
select 1 as found from afl_tasks where state = 'pending' and hold = '' and task_list_name = :task_list limit 1
-- `is true` keeps planners without statistics from indexes that find many: in a claim every older task would be read for
-- each candidate, elsewhere every task of the owner, or every open run, for the one that is named.

-- name: claim_tasks
with chosen as {materialized} (
    select t.seq from afl_tasks t
    where t.state = 'pending' and t.hold = '' and t.task_list_name = :task_list
        and (t.name {in:names} or t.short_name {in:names}
            or (:any_event = 1 and substr(t.name, 1, 4) <> 'afl:'))
        and (t.not_before = 0 or t.not_before <= {now})
        and (t.step_id = '' or not exists (
            select 1 from afl_tasks e where e.step_id = t.step_id and e.step_id <> ''
                and (e.state = 'running' or (e.state = 'pending' and e.seq < t.seq)) is true))
        and not exists (
            select 1 from afl_locks l where l.key = 'runner:task:' || t.uuid and l.expires_at > {now} and l.owner <> :owner)
    order by t.priority desc, t.seq limit :limit {skip_locked:t}
)
update afl_tasks set state = 'running', owner = :owner, epoch = epoch + 1, deliveries = deliveries + 1, started = 0,
    lease_until = case when :lease_ms = 0 then 0 else {now} + :lease_ms end,
    lock_until = case when :lock_ms = 0 then 0 else {now} + :lock_ms end,
    while_alive = :while_alive, updated = :updated
where seq {seq_of:chosen} and (state = 'pending' and hold = '') is true
returning *
-- name: claim_run_tasks
with chosen as {materialized} (
    select t.seq from afl_tasks t
    where t.workflow_id = :workflow_id and t.workflow_id <> '' and (t.state = 'pending' and t.hold = '') is true
        and (t.name {in:names} or t.short_name {in:names}
            or (:any_event = 1 and substr(t.name, 1, 4) <> 'afl:'))
        and (t.not_before = 0 or t.not_before <= {now})
        and (t.step_id = '' or not exists (
            select 1 from afl_tasks e where e.step_id = t.step_id and e.step_id <> ''
                and (e.state = 'running' or (e.state = 'pending' and e.seq < t.seq)) is true))
        and not exists (
            select 1 from afl_locks l where l.key = 'runner:task:' || t.uuid and l.expires_at > {now} and l.owner <> :owner)
    order by t.priority desc, t.seq limit :limit {skip_locked:t}
)
update afl_tasks set state = 'running', owner = :owner, epoch = epoch + 1, deliveries = deliveries + 1, started = 0,
    lease_until = case when :lease_ms = 0 then 0 else {now} + :lease_ms end,
    lock_until = case when :lock_ms = 0 then 0 else {now} + :lock_ms end,
    while_alive = :while_alive, updated = :updated
where seq {seq_of:chosen} and (state = 'pending' and hold = '') is true
returning *
-- name: start_tasks
update afl_tasks set started = :started, deadline = case when timeout_ms = 0 then 0 else {now} + timeout_ms end
where uuid {in:uuids} and (state = 'running') is true and uuid || ' ' || owner || ' ' || epoch {in:claims}
-- name: close_held_task
update afl_tasks set state = :state, error = :error, result = :result, updated = :updated, started = :started,
    host = :host, pid = :pid
where uuid = :uuid and (state = 'running' and owner = :owner) is true and epoch = :epoch
-- name: close_task
update afl_tasks set state = :state, error = :error, result = :result, updated = :updated,
    hold = case when via = '' then hold when substr(via, 1, 6) in ('human:', 'signal') then '' else 'elsewhere' end
where uuid = :uuid and state in ('pending', 'running')
-- name: close_elsewhere
update afl_tasks set state = :state, error = :error, result = :result, bridge = :bridge, updated = :updated, hold = ''
where uuid = :uuid and (state = 'pending' and hold = 'elsewhere' and via = :via) is true and epoch = :epoch
-- name: ended_elsewhere
select * from afl_tasks
where hold = 'elsewhere' and via >= :via_from and via < :via_beyond and state in ('completed', 'failed', 'ignored', 'canceled')
order by +seq limit :limit
-- name: told
update afl_tasks set hold = ''
where uuid = :uuid and (hold = 'elsewhere') is true and state in ('completed', 'failed', 'ignored', 'canceled')
-- name: hand_over
update afl_tasks set state = 'pending', hold = 'elsewhere', via = :via, bridge = :bridge, patience_ms = :patience_ms,
    last_owner = owner, owner = '', epoch = epoch + 1, lock_until = 0, started = 0, updated = :updated,
    deadline = case when timeout_ms > 0 then {now} + timeout_ms else 0 end,
    lease_until = case when :patience_ms > 0 then {now} + :patience_ms else 0 end
where uuid = :uuid and (state = 'running' and owner = :owner) is true and epoch = :epoch
-- name: unanswered
select * from afl_tasks where hold = 'elsewhere' and state = 'pending' and lease_until > 0 and lease_until < {now}
order by +seq limit :limit
-- name: ask_next
update afl_tasks set via = :next, bridge = :bridge, patience_ms = :patience_ms, updated = :updated,
    lease_until = case when :patience_ms > 0 then {now} + :patience_ms else 0 end
where uuid = :uuid and (state = 'pending' and hold = 'elsewhere' and via = :via) is true and epoch = :epoch
-- name: requeue_task
update afl_tasks set state = 'pending', owner = '', epoch = epoch + 1, lock_until = 0,
    lease_until = case when :paused = 0 and patience_ms > 0 and (hold = 'elsewhere' or concurrency_key = '')
        then {now} + :delay_ms + patience_ms else 0 end,
    deadline = case when :paused = 0 and via <> '' and timeout_ms > 0 and (hold = 'elsewhere' or concurrency_key = '')
        then {now} + :delay_ms + timeout_ms else 0 end,
    started = 0, failures = failures + 1, hold = case when :paused = 1 then 'paused' when hold = 'elsewhere' then 'elsewhere'
        when concurrency_key <> '' and (state = 'pending' or concurrency_limit < 0) then 'concurrency' when via <> '' then 'elsewhere' else '' end, not_before = {now} + :delay_ms, error = :error, updated = :updated,
    last_owner = case when owner = '' then last_owner else owner end
where uuid = :uuid and ((:owner <> '' and state = 'running' and owner = :owner and epoch = :epoch)
    or (:owner = '' and state = 'pending' and epoch = :epoch))
returning task_list_name, concurrency_key, hold
-- name: run_state
select state from afl_runs where workflow_id = :workflow_id {for_update}
-- name: return_task
update afl_tasks set state = 'pending', owner = '', epoch = epoch + 1, lease_until = 0, lock_until = 0, deadline = 0,
    started = 0, deliveries = deliveries - :unused, updated = :updated,
    hold = case when hold = '' and concurrency_limit < 0 then 'concurrency' else hold end
where uuid = :uuid and (state = 'running' and owner = :owner) is true and epoch = :epoch
-- name: held_tasks
select uuid, epoch from afl_tasks where owner = :owner and state = 'running'
-- name: renew_tasks
update afl_tasks set lease_until = case when lease_until = 0 then 0 else {greatest}(lease_until, {now} + :lease_ms) end,
    lock_until = case when lock_until = 0 then 0 else {greatest}(lock_until, {now} + :lock_ms) end
where owner = :owner and state = 'running' and (:every = 1 or uuid {in:ids})
returning uuid, epoch
-- name: renew_task
update afl_tasks set lease_until = case when lease_until = 0 then 0 else {greatest}(lease_until, {now} + :lease_ms) end
where uuid = :uuid and (state = 'running' and owner = :owner) is true and epoch = :epoch
-- name: renew_runs
update afl_runs set lease_until = {now} + :lease_ms
where state in ('created', 'running') and owner = :owner and (:every = 1 or workflow_id {in:ids})
returning workflow_id
-- A death, or a lease that expired, counts against a task whose handler had begun. The first one also counts against those
-- that only waited for the same owner, since who had begun is written down lazily; from then on a task is handled alone, and
-- marked before it begins. Together they poison a task.
-- name: tasks_of_owner
select * from afl_tasks where owner = :owner and state = 'running' order by seq {for_update}
-- name: release_tasks
update afl_tasks set state = 'pending', last_owner = owner, owner = '', epoch = epoch + 1, lease_until = 0,
    lock_until = 0, deadline = 0, started = 0, updated = :updated,
    deaths = deaths + :deaths * (case when started > 0 or (deaths + expiries = 0 and :max_deliveries > 1) then 1 else 0 end),
    hold = case when :deaths > 0 and deaths + expiries
        + case when started > 0 or (deaths + expiries = 0 and :max_deliveries > 1) then 1 else 0 end >= :max_deliveries
        then 'poisoned' when hold = '' and concurrency_limit < 0 then 'concurrency' else hold end
where owner = :owner and state = 'running'
returning task_list_name
-- name: expired_tasks
select * from afl_tasks
where state = 'running' and lease_until > 0 and lease_until < {now} and (while_alive = 0 or not (owner {in:alive}))
order by seq + 0 {for_update}
-- name: release_expired_tasks
update afl_tasks set state = 'pending', last_owner = owner, owner = '', epoch = epoch + 1, lease_until = 0,
    lock_until = 0, deadline = 0, started = 0, updated = :updated,
    expiries = expiries + case when started > 0 or (deaths + expiries = 0 and :max_deliveries > 1) then 1 else 0 end,
    hold = case when deaths + expiries
        + case when started > 0 or (deaths + expiries = 0 and :max_deliveries > 1) then 1 else 0 end >= :max_deliveries
        then 'poisoned' when hold = '' and concurrency_limit < 0 then 'concurrency' else hold end
where uuid {in:ids} and (state = 'running') is true
returning task_list_name
-- name: timed_out_tasks
select * from afl_tasks where state = 'running' and deadline > 0 and deadline < {now} order by seq + 0 {for_update}
-- name: time_out_tasks
update afl_tasks set state = 'pending', last_owner = owner, owner = '', epoch = epoch + 1, lease_until = 0,
    lock_until = 0, started = 0, updated = :updated, hold = 'timeout'
where uuid {in:ids} and (state = 'running') is true
returning task_list_name
-- name: time_out_elsewhere
update afl_tasks set epoch = epoch + 1, lease_until = 0, updated = :updated, hold = 'timeout'
where hold = 'elsewhere' and state = 'pending' and deadline > 0 and deadline < {now}
returning task_list_name
-- name: owners
select owner from afl_tasks where state = 'running'
union select owner from afl_runs where state in ('created', 'running') and owner > ''
-- name: stale
select (select count(*) from afl_tasks where state = 'running' and lease_until > 0 and lease_until < {now}) as expired,
    (select count(*) from afl_tasks where state = 'running' and deadline > 0 and deadline < {now}) as timed,
    (select count(*) from afl_tasks where hold = 'elsewhere' and state = 'pending' and deadline > 0 and deadline < {now}) as timed_elsewhere,
    (select count(*) from afl_runs where state in ('created', 'running') and owner > '' and lease_until < {now}) as runs
-- name: release_runs
update afl_runs set owner = '', epoch = epoch + 1, lease_until = 0 where state in ('created', 'running') and owner = :owner
-- name: release_expired_runs
update afl_runs set owner = '', epoch = epoch + 1, lease_until = 0
where state in ('created', 'running') and owner > '' and lease_until < {now}
-- name: release_locks
delete from afl_locks where owner = :owner
-- name: key_standing
select (select count(*) from afl_tasks
        where {part:special_tasks}
            and concurrency_key = :key and hold in ('', 'elsewhere'))
    + (select count(*) from afl_tasks
        where {part:special_tasks}
            and concurrency_key = :key and hold = 'paused' and state = 'running') as active,
    (select concurrency_limit from afl_tasks
        where {part:special_tasks}
            and concurrency_key = :key and hold = 'concurrency' and state = 'pending'
        order by priority desc, seq limit 1) as allowed
-- name: promote
with chosen as materialized (
    select seq from afl_tasks
    where {part:special_tasks}
        and concurrency_key = :key and hold = 'concurrency' and state = 'pending'
    order by priority desc, seq limit :free
)
update afl_tasks set hold = case when via = '' then '' else 'elsewhere' end, updated = :updated,
    deadline = case when via = '' or timeout_ms = 0 then 0 else {greatest}(not_before, {now}) + timeout_ms end,
    lease_until = case when patience_ms = 0 then 0 else {greatest}(not_before, {now}) + patience_ms end
where seq {seq_of:chosen} and (hold = 'concurrency' and state = 'pending') is true
returning task_list_name, via
-- name: rate_standing
select {now} as now, (select next_at from afl_rates where key = :key) as next_at,
    (select given from afl_rates where key = :key) as given,
    (select interval_ms from afl_rates where key = :key) as interval_ms,
    (select count(*) from afl_tasks
        where {part:special_tasks}
            and concurrency_key = :key and hold = '' and state = 'pending') as promoted
-- name: put_back
update afl_tasks set hold = 'concurrency'
where {part:special_tasks}
    and concurrency_key = :key and hold = '' and state = 'pending' and not_before > :at
-- name: promoted_tasks
select name, not_before from afl_tasks
where {part:special_tasks}
    and concurrency_key = :key and hold = '' and state = 'pending'
-- While such a task waits for a rate, its lease says since when: the next turn is that of one that had none.
-- name: pass_over
update afl_tasks set hold = 'concurrency', lease_until = {now}
where {part:special_tasks}
    and concurrency_key = :key and hold = '' and state = 'pending'
-- name: promote_rated
with chosen as materialized (
    select seq from afl_tasks
    where {part:special_tasks}
        and concurrency_key = :key and hold = 'concurrency' and state = 'pending' and not (name {in:besides})
    order by case when not_before > :at then not_before else 0 end, lease_until, priority desc, seq limit 1
)
update afl_tasks set hold = '', not_before = {greatest}(not_before, :at), lease_until = 0, updated = :updated
where seq {seq_of:chosen} and (hold = 'concurrency' and state = 'pending') is true
returning task_list_name, concurrency_limit
-- name: set_rate
insert into afl_rates (key, next_at, given, interval_ms) values (:key, :next_at, :given, :interval_ms)
on conflict (key) do update set next_at = excluded.next_at, given = excluded.given, interval_ms = excluded.interval_ms
-- name: delete_rates
delete from afl_rates where given = 0 and next_at <= {now}
-- From key to key: of one there may be thousands of tasks. A rate (its limit is below 0) has one task at a time to claim.
-- name: waiting_keys
with recursive keys (id) as (
    select min(concurrency_key) from afl_tasks
    where {part:special_tasks}
        and hold = 'concurrency' and concurrency_key > ''
    union all
    select (
        select min(t.concurrency_key) from afl_tasks t
        where {part:special_tasks}
            and t.hold = 'concurrency' and t.concurrency_key > keys.id)
    from keys where keys.id is not null
)
select id as concurrency_key from keys where id is not null and ((
    select t.concurrency_limit from afl_tasks t
    where {part:special_tasks}
        and t.concurrency_key = keys.id and t.hold = 'concurrency' and t.state = 'pending'
    order by t.priority desc, t.seq limit 1
) > (
    select count(*) from afl_tasks t
    where {part:special_tasks}
        and t.concurrency_key = keys.id and t.hold in ('', 'elsewhere')
) + (
    select count(*) from afl_tasks t
    where {part:special_tasks}
        and t.concurrency_key = keys.id and t.hold = 'paused' and t.state = 'running'
) or (substr(id, 1, 5) = 'rate:' and exists (
    select 1 from afl_tasks t
    where {part:special_tasks}
        and t.concurrency_key = keys.id and t.hold = 'concurrency' and t.state = 'pending'
) and not exists (
    select 1 from afl_tasks t
    where {part:special_tasks}
        and t.concurrency_key = keys.id and t.hold = '' and t.state = 'pending' and t.not_before > {now} - :patience_ms
)))
-- name: open_keys
select distinct concurrency_key from afl_tasks
where workflow_id = :workflow_id and workflow_id <> '' and concurrency_key <> '' and state in ('pending', 'running')

-- name: pause_run
update afl_runs set state = 'paused', reason = :reason, owner = '', epoch = epoch + 1, lease_until = 0, updated = :updated
where workflow_id = :workflow_id and state in ('created', 'running')
returning runner_id, state
-- name: pause_tasks
update afl_tasks set hold = 'paused', updated = :updated
where workflow_id = :workflow_id and workflow_id <> '' and state in ('pending', 'running') and hold in ('', 'concurrency')
-- name: unpause_run
update afl_runs set state = case when iterations > 0
    or exists (select 1 from afl_steps s where s.workflow_id = afl_runs.workflow_id) then 'running' else 'created' end, reason = '', updated = :updated
where workflow_id = :workflow_id and state = 'paused'
returning runner_id, state
-- name: unpause_tasks
update afl_tasks set updated = :updated,
    hold = case when state = 'running' then '' when concurrency_key <> '' then 'concurrency' when via <> '' then 'elsewhere' else '' end,
    deadline = case when via = '' or timeout_ms = 0 or concurrency_key <> '' then deadline else {greatest}(not_before, {now}) + timeout_ms end,
    lease_until = case when patience_ms = 0 or concurrency_key <> '' then lease_until else {greatest}(not_before, {now}) + patience_ms end
where workflow_id = :workflow_id and workflow_id <> '' and (state in ('pending', 'running') and hold = 'paused') is true
returning task_list_name, via
-- name: cancel_run
update afl_runs set state = 'canceled', reason = :reason, error = :error, owner = '', epoch = epoch + 1,
    lease_until = 0, updated = :updated, ended = :updated
where workflow_id = :workflow_id and state in ('created', 'running', 'paused')
returning runner_id
-- name: running_tasks_of_run
select * from afl_tasks
where workflow_id = :workflow_id and workflow_id <> '' and (state = 'running') is true order by +seq {for_update}
-- name: cancel_tasks
update afl_tasks set state = 'canceled', epoch = epoch + 1, error = :error, updated = :updated,
    hold = case when via = '' or substr(via, 1, 6) in ('human:', 'signal') then '' else 'elsewhere' end
where workflow_id = :workflow_id and workflow_id <> '' and state in ('pending', 'running')
-- name: delete_marks
delete from afl_events where workflow_id = :workflow_id and event_type = 'StepContinue'
-- name: ended_runs
select r.workflow_id, r.runner_id from afl_runs r
where r.ended > 0 and r.ended < :before
    and (r.ended < :long_ago or not exists (
        select 1 from afl_tasks t where t.workflow_id = r.workflow_id and t.workflow_id <> '' and t.hold = 'elsewhere'
            and t.state in ('completed', 'failed', 'ignored', 'canceled')))
    and (r.parent_step = '' or r.parent_told = 1 or r.ended < :long_ago)
order by r.ended limit :limit {skip_locked:r}
-- name: ended_runs_among
select r.workflow_id, r.runner_id from afl_runs r
where r.workflow_id {in:ids} and r.ended > 0 and r.ended < :before
    and (r.ended < :long_ago or not exists (
        select 1 from afl_tasks t where t.workflow_id = r.workflow_id and t.workflow_id <> '' and t.hold = 'elsewhere'
            and t.state in ('completed', 'failed', 'ignored', 'canceled')))
    and (r.parent_step = '' or r.parent_told = 1 or r.ended < :long_ago)
order by r.ended + 0 limit :limit {skip_locked:r}
-- name: delete_run_steps
delete from afl_steps where workflow_id {in:ids}
-- name: delete_run_events
delete from afl_events where workflow_id {in:ids}
-- name: delete_run_tasks
delete from afl_tasks where workflow_id {in:ids} and workflow_id <> ''
-- name: delete_loose_tasks
with chosen as {materialized} (
    select t.seq from afl_tasks t
    where t.step_id = '' and t.state not in ('pending', 'running') and t.updated > 0 and t.updated < :before
        and (t.hold <> 'elsewhere') is true
    order by t.updated limit :limit {skip_locked:t}
)
delete from afl_tasks where seq {seq_of:chosen} returning workflow_id, uuid
-- name: count_loose_tasks
select count(*) as found from afl_tasks
where step_id = '' and state not in ('pending', 'running') and updated > 0 and updated < :before
    and (hold <> 'elsewhere') is true
-- name: delete_loose_logs
with chosen as {materialized} (
    select l.seq from (
        select o.seq, o.time from afl_logs o where o.runner_id = '' order by o.seq limit :limit
    ) as l where l.time < :before
)
delete from afl_logs where seq {seq_of:chosen} returning seq
-- name: delete_run_logs
delete from afl_logs where runner_id {in:ids}
-- name: delete_run_published
delete from afl_published where workflow_id {in:ids}
-- name: delete_run_signals
delete from afl_signals where workflow_id {in:ids}
-- name: delete_run_history
delete from afl_history where workflow_id {in:ids}
-- name: delete_run_tags
delete from afl_tags where workflow_id {in:ids}
-- name: delete_run_inputs
delete from afl_inputs where workflow_id {in:ids}
-- name: delete_runner_records
delete from afl_runners where uuid {in:ids}
-- name: delete_runs
delete from afl_runs where workflow_id {in:ids}
-- name: get_due_runs
with marked as materialized (select distinct workflow_id as id from afl_events where event_type = 'StepContinue')
select r.workflow_id from afl_runs r
where r.state in ('created', 'running') and r.settled = 0 and (r.owner = '' or r.lease_until < {now})
union
select r.workflow_id from afl_runs r
where r.workflow_id {id_of:marked} and (r.state in ('created', 'running')) is true and (r.owner = '' or r.lease_until < {now})
order by 1 limit :limit
-- What a RunFilter asks for, but for the times.
-- part: fitting_runs
(:state = '' or r.state = :state) and (:workflow = '' or r.workflow_name = :workflow)
    and (:roots = 0 or r.parent_step = '')
    and (:tag_count = 0
        or (select count(*) from afl_tags t where t.workflow_id = r.workflow_id and t.tag {in:tags}) = :tag_count)
    and (:longer = 0 or case when r.ended > 0 then r.ended else :clock end - r.created >= :longer)
    and (:shorter = 0 or case when r.ended > 0 then r.ended else :clock end - r.created <= :shorter)
    and (:cost_from = 0 or (select c.cost from afl_costs c where c.workflow_id = r.workflow_id) >= :cost_from)
    and (:cost_to = 0
        or coalesce((select c.cost from afl_costs c where c.workflow_id = r.workflow_id), 0) <= :cost_to)
    and (
        :text = '' or lower(r.workflow_id) like :text escape '!' or lower(r.workflow_name) like :text escape '!'
        or lower(coalesce(r.error, '')) like :text escape '!' or lower(r.reason) like :text escape '!'
        or lower(r.name) like :text escape '!'
    )
-- name: find_runs
select r.*, '{}' as inputs from afl_runs r
where r.created >= :since and r.created <= :latest and (:before = '' or r.created < :latest or r.workflow_id < :before)
    and (:until = 0 or r.created < :until)
    and {part:fitting_runs}
order by r.created desc, r.workflow_id desc limit :limit
-- name: find_runs_named
select r.*, '{}' as inputs from afl_runs r
where r.workflow_id >= :prefix and r.workflow_id < :beyond
    and r.created <= :latest and (:before = '' or r.created < :latest or r.workflow_id < :before)
    and (:since = 0 or r.created >= :since) and (:until = 0 or r.created < :until)
    and {part:fitting_runs}
order by r.created + 0 desc, r.workflow_id desc limit :limit
-- name: find_runs_among
select r.*, '{}' as inputs from afl_runs r
where r.workflow_id {in:ids}
    and r.created <= :latest and (:before = '' or r.created < :latest or r.workflow_id < :before)
    and (:prefix = '' or (r.workflow_id >= :prefix and r.workflow_id < :beyond))
    and (:since = 0 or r.created >= :since) and (:until = 0 or r.created < :until)
    and {part:fitting_runs}
order by r.created + 0 desc, r.workflow_id desc limit :limit

-- Ids of runs by one index each, for the lists above. Those along a state or a workflow come newest first.
-- name: runs_in_state
select workflow_id from afl_runs
where state in ('completed', 'failed', 'canceled', 'paused') and state = :state
    and (created, workflow_id) < (:latest, :behind)
order by created desc, workflow_id desc limit :limit
-- name: runs_of_workflow
select workflow_id from afl_runs
where workflow_name = :workflow and (created, workflow_id) < (:latest, :behind)
order by created desc, workflow_id desc limit :limit
-- name: runs_open
select workflow_id from afl_runs where state in ('created', 'running') and state = :state limit :limit
-- name: count_runs_in_state
select count(*) as found from (
    select 1 from afl_runs
    where state in ('completed', 'failed', 'canceled', 'paused') and state = :state limit :limit
) as counted
-- name: count_runs_open
select count(*) as found from (
    select 1 from afl_runs where state in ('created', 'running') and state = :state limit :limit
) as counted
-- name: runs_tagged
select workflow_id from afl_tags where tag = :tag limit :limit
-- name: runs_by_duration
select workflow_id from afl_runs
where ended > 0 and ended - created >= :at_least and ended - created <= :at_most limit :limit
-- name: runs_by_cost
select workflow_id from afl_costs where cost >= :at_least and cost <= :at_most limit :limit
-- name: nth_newest
select created from afl_runs order by created desc, workflow_id desc limit 1 offset :number
-- name: runs_waiting_elsewhere
select distinct workflow_id from afl_tasks
where hold = 'elsewhere' and state = 'pending' and via >= :via_from and via < :via_beyond
-- name: runs_waiting_timer
select distinct workflow_id from afl_tasks where hold = 'timer' and deadline > 0 and state = 'pending'
-- name: runs_waiting_slot
select distinct workflow_id from afl_tasks
where {part:special_tasks}
    and (hold = 'concurrency' or (concurrency_limit < 0 and hold = '' and not_before > {now}))
-- name: runs_waiting_retry
select distinct workflow_id from afl_tasks
where {part:special_tasks} and failures > 0
-- name: runs_waiting_budget
select workflow_id from afl_runs where state = 'paused' and substr(reason, 1, 6) = 'budget'
-- name: runs_waiting_agent
select distinct workflow_id from afl_tasks where state = 'pending' and hold = ''
union
select distinct workflow_id from afl_tasks where hold = 'elsewhere' and state = 'pending' and via >= 'agent:' and via < 'agent;'
union
select distinct workflow_id from afl_tasks where hold = 'elsewhere' and state = 'pending' and via >= 'fleet:' and via < 'fleet;'
union
select distinct workflow_id from afl_tasks where hold = 'elsewhere' and state = 'pending' and via >= 'message:' and via < 'message;'

-- From the open steps of the runs: of tasks that ended, a run may have thousands.
-- name: open_work
select t.workflow_id, t.name, t.task_list_name as task_list, t.state, t.hold, t.via, t.retried, t.rated, count(*) as count
from (
    select o.workflow_id, o.name, o.task_list_name, o.state, o.hold,
        case when substr(o.via, 1, 4) = 'run:' then 'run:' else o.via end as via,
        case when o.failures > 0 then 1 else 0 end as retried,
        case when o.concurrency_limit < 0 and o.hold = '' and o.not_before > {now} then 1 else 0 end as rated
    from afl_steps s cross join afl_tasks o
    where s.workflow_id {in:ids} and s.state = 'state.EventTransmit'
        and s.state <> 'state.statement.Complete' and s.state <> 'state.statement.Error'
        and o.step_id = s.id {plain} and o.step_id <> '' and (o.state in ('pending', 'running')) is true
) as t
group by t.workflow_id, t.name, t.task_list_name, t.state, t.hold, t.via, t.retried, t.rated
-- name: leading_inputs
select workflow_id, substr(inputs, 1, cast(:length as integer)) as text from afl_inputs where workflow_id {in:ids}

-- name: get_children
select r.*, '{}' as inputs from afl_runs r
where r.parent_step <> '' and r.parent_step >= :parent and r.parent_step < :beyond
    and substr(r.parent_step, length(:parent) + 1, 1) in ('', '/')
    and (:any_state = 1 or r.state {in:states})
order by r.created + 0 desc, r.workflow_id desc limit :limit
-- name: count_children
select state, count(*) as found from afl_runs
where parent_step <> '' and parent_step >= :parent and parent_step < :beyond
    and substr(parent_step, length(:parent) + 1, 1) in ('', '/')
group by state
-- name: get_runs_from
select r.*, '{}' as inputs from afl_runs r
where r.origin <> '' and r.origin >= :origin and r.origin < :beyond
    and substr(r.origin, length(:origin) + 1, 1) in ('', '/')
order by r.created + 0 desc, r.workflow_id desc limit :limit
-- name: untold_children
select workflow_id from afl_runs where parent_step <> '' and parent_told = 0 and ended > 0 order by ended limit :limit
-- name: tell_parent
update afl_runs set parent_told = 1 where workflow_id = :workflow_id
-- name: parent_told
update afl_runs set parent_told = 1
where workflow_id = :workflow_id and parent_told = 0 and not exists (
    select 1 from afl_tasks t
    where t.step_id = afl_runs.parent_step {plain} and t.step_id <> '' and (t.state = 'pending' and t.via = :via) is true)

-- name: get_run
select r.*, coalesce(i.inputs, '{}') as inputs
from afl_runs r left join afl_inputs i on i.workflow_id = :workflow_id where r.workflow_id = :workflow_id
-- name: get_runs
select r.*, coalesce((select i.inputs from afl_inputs i where i.workflow_id = r.workflow_id {plain}), '{}') as inputs
from afl_runs r
where cast(:state as text) is null or r.state = cast(:state as text)
order by r.created desc, r.workflow_id desc limit :limit
-- name: insert_inputs
insert into afl_inputs (workflow_id, inputs) values (:workflow_id, :inputs) on conflict (workflow_id) do nothing
-- name: set_tags
update afl_runs set tags = :tags where workflow_id = :workflow_id
-- name: delete_tag
delete from afl_tags where workflow_id = :workflow_id and substr(tag, 1, length(:prefix)) = :prefix
-- name: insert_tag
insert into afl_tags (tag, workflow_id) values (:tag, :workflow_id) on conflict (tag, workflow_id) do nothing
-- name: start_run
insert into afl_runs (
    workflow_id, workflow_name, program_hash, state, runner_id, flow_id, task_list, outputs, iterations, waiting, settled,
    created, updated, ended, owner, epoch, lease_until, name, tags
) values (
    :workflow_id, :workflow_name, :program_hash, :state, :runner_id, :flow_id, :task_list, :outputs, 0, 0, 0, :created, :updated,
    0, '', 0, 0, :name, :tags
) on conflict (workflow_id) do nothing
-- name: started_run
select r.workflow_name, r.program_hash, r.created, r.parent_step, coalesce(i.inputs, '{}') as inputs
from afl_runs r left join afl_inputs i on i.workflow_id = :workflow_id where r.workflow_id = :workflow_id
-- name: get_outcomes
select workflow_id, workflow_name, state, outputs, error, reason, created, updated, ended from afl_runs
where workflow_id {in:ids}
-- name: get_open_run_called
select workflow_id from afl_runs
where state in ('created', 'running') and name = :name and workflow_name = :workflow_name
union all
select workflow_id from afl_runs where state = 'paused' and name = :name and workflow_name = :workflow_name
limit 1
-- name: insert_run
insert into afl_runs (
    workflow_id, workflow_name, program_hash, state, runner_id, flow_id, task_list, outputs, error, iterations, waiting,
    settled, created, updated, ended, owner, epoch, lease_until, reason, parent_step, on_parent_close, parent_told, name, tags,
    origin
) values (
    :workflow_id, :workflow_name, :program_hash, :state, :runner_id, :flow_id, :task_list, :outputs, :error,
    :iterations, :waiting, :settled, :created, :updated, :ended, :owner, :epoch,
    case when :owner = '' then 0 else {now} + :lease_ms end, :reason, :parent_step, :on_parent_close, :parent_told, :name, :tags,
    :origin
) on conflict (workflow_id) do update set parent_told = excluded.parent_told
where afl_runs.parent_step = excluded.parent_step and excluded.parent_step <> ''
-- name: update_run
update afl_runs set
    state = :state, outputs = :outputs, error = :error, iterations = :iterations, waiting = :waiting,
    settled = :settled, updated = :updated, ended = :ended, owner = :owner, reason = :reason,
    lease_until = case when :owner = '' then 0 else {now} + :lease_ms end
where workflow_id = :workflow_id and epoch = :epoch
-- name: take_run
update afl_runs set owner = :owner, epoch = epoch + 1, lease_until = {now} + :lease_ms
where workflow_id = :workflow_id and state in ('created', 'running')
    and (owner = '' or lease_until < {now} or (owner = :holder and epoch = :epoch))
returning workflow_id, workflow_name, program_hash, state, runner_id, flow_id, task_list, '{}' as inputs, outputs, error,
    iterations, waiting, settled, created, updated, ended, owner, epoch, lease_until, reason, parent_step, on_parent_close,
    parent_told, name, tags, origin
-- name: take_runs
update afl_runs set owner = :owner, epoch = epoch + 1, lease_until = {now} + :lease_ms
where workflow_id {in:ids} and (state in ('created', 'running')) is true and (owner = '' or lease_until < {now})
returning workflow_id, workflow_name, program_hash, state, runner_id, flow_id, task_list, outputs, error, iterations,
    waiting, settled, created, updated, ended, owner, epoch, lease_until, reason, parent_step, on_parent_close, parent_told,
    name, tags, origin, '{}' as inputs
-- name: get_inputs
select workflow_id, inputs from afl_inputs where workflow_id {in:ids}
-- name: release_run
update afl_runs set owner = '', lease_until = 0
where workflow_id = :workflow_id and owner = :owner and epoch = :epoch

-- name: get_runner
select * from afl_runners where uuid = :uuid
-- name: get_runners_by_state
select * from afl_runners where state = :state order by start_time desc, uuid
-- name: get_runners_by_workflow
select * from afl_runners where workflow_id = :workflow_id order by start_time desc, uuid
-- name: get_all_runners
select * from afl_runners order by start_time desc, uuid limit :limit
-- name: save_runner
insert into afl_runners (uuid, workflow_id, state, start_time, end_time, duration, record)
values (:uuid, :workflow_id, :state, :start_time, :end_time, :duration, :record)
on conflict (uuid) do update set workflow_id = excluded.workflow_id, state = excluded.state,
    start_time = excluded.start_time, end_time = excluded.end_time, duration = excluded.duration,
    record = excluded.record
-- name: update_runner_state
update afl_runners set state = :state where uuid = :uuid
-- name: end_runner
update afl_runners set state = :state, end_time = :ended, duration = :ended - start_time, workflow_id = :workflow_id
where uuid = :uuid

-- name: get_flow
select record from afl_flows where uuid = :uuid
-- name: get_flow_by_path
select record from afl_flows where path = :path order by seq desc limit 1
-- name: get_flow_by_name
select record from afl_flows where name = :name order by seq desc limit 1
-- name: get_all_flows
select record from afl_flows order by seq
-- name: find_flows
select record from afl_flows
where (:prefix = '' or substr(uuid, 1, length(:prefix)) = :prefix)
    and (:before = '' or seq < (select f.seq from afl_flows f where f.uuid = :before))
order by seq desc limit :limit
-- name: count_runs_of_flows
select flow_id, count(*) as found from afl_runs where flow_id {in:ids} group by flow_id
-- name: save_flow
insert into afl_flows (uuid, name, path, record) values (:uuid, :name, :path, :record)
on conflict (uuid) do update set name = excluded.name, path = excluded.path, record = excluded.record
-- name: delete_flow
delete from afl_flows where uuid = :uuid
-- name: get_workflow
select record from afl_workflows where uuid = :uuid
-- name: get_workflow_by_name
select record from afl_workflows where name = :name order by date desc, seq desc limit 1
-- name: get_workflows_by_flow
select record from afl_workflows where flow_id = :flow_id order by date, seq
-- name: save_workflow
insert into afl_workflows (uuid, name, flow_id, date, record) values (:uuid, :name, :flow_id, :date, :record)
on conflict (uuid) do update set name = excluded.name, flow_id = excluded.flow_id, date = excluded.date,
    record = excluded.record

-- name: get_server
select * from afl_servers where uuid = :uuid
-- name: get_all_servers
select * from afl_servers order by start_time, uuid
-- name: get_servers_by_state
select * from afl_servers where state = :state order by start_time, uuid
-- name: save_server
insert into afl_servers (uuid, state, start_time, ping_time, record)
values (:uuid, :state, :start_time, :ping_time, :record)
on conflict (uuid) do update set state = excluded.state, start_time = excluded.start_time,
    ping_time = excluded.ping_time, record = excluded.record
-- name: update_server_ping
update afl_servers set ping_time = :ping_time where uuid = :uuid

-- name: work_item
select uuid, name, step_id, owner, updated, lock_until from afl_tasks
where uuid = :uuid and (state = 'running') is true and lock_until > {now}
-- name: set_work_item_lock
update afl_tasks set lock_until = case when :duration_ms = 0 then 0 else {now} + :duration_ms end
where uuid = :uuid and (state = 'running') is true and lock_until > {now} and (:owner = '' or owner = :owner)
-- name: acquire_lock
insert into afl_locks (key, owner, acquired_at, expires_at, meta)
values (:key, :owner, {now}, {now} + :duration_ms, :meta)
on conflict (key) do update set owner = excluded.owner, acquired_at = excluded.acquired_at,
    expires_at = excluded.expires_at, meta = excluded.meta
where afl_locks.expires_at <= {now} or (afl_locks.owner = excluded.owner and excluded.owner <> '')
-- name: delete_expired_locks
delete from afl_locks where expires_at <= {now}
-- name: release_lock
delete from afl_locks where key = :key and expires_at > {now} and (:owner = '' or owner = :owner)
-- name: check_lock
select * from afl_locks where key = :key and expires_at > {now}
-- name: extend_lock
update afl_locks set expires_at = {now} + :duration_ms
where key = :key and expires_at > {now} and (:owner = '' or owner = :owner)

-- name: insert_log
insert into afl_logs (uuid, runner_id, position, time, record) values (:uuid, :runner_id, :position, :time, :record)
-- name: get_logs_by_runner
select record from afl_logs where runner_id = :runner_id order by position, time, uuid
-- name: get_logs_after
select seq, record from afl_logs where runner_id = :runner_id and seq > :position order by seq limit :limit
-- name: get_logs_before
select seq, record from afl_logs where runner_id = :runner_id and seq < :position order by seq desc limit :limit

-- name: count_steps
select count(*) as found from afl_steps
-- name: count_events
select (select count(*) from afl_events where event_type <> 'StepContinue') + (
    select count(*) from afl_tasks t left join afl_events e on e.id = t.uuid where t.step_id <> '' and e.id is null
) as found
-- name: get_all_steps
select * from afl_steps order by started, id

-- name: run_pulse
select r.state, r.iterations, r.waiting, r.updated, r.settled, r.reason, t.tasks, t.epochs, t.latest, t.pending, t.held, t.failures,
    (select coalesce(max(l.seq), 0) from afl_logs l where l.runner_id = :workflow_id) as log_end
from afl_runs r cross join (
    select count(*) as tasks, cast(coalesce(sum(epoch), 0) as {bigint}) as epochs, coalesce(max(updated), 0) as latest,
        cast(coalesce(sum(case when state = 'pending' then 1 else 0 end), 0) as {bigint}) as pending,
        cast(coalesce(sum(case when hold <> '' then 1 else 0 end), 0) as {bigint}) as held,
        cast(coalesce(sum(failures), 0) as {bigint}) as failures
    from afl_tasks where workflow_id = :workflow_id and workflow_id <> ''
) t where r.workflow_id = :workflow_id
-- name: newest_runs_pulse
select workflow_id, state, updated, waiting from afl_runs order by created desc, workflow_id desc limit :limit
-- name: open_runs_pulse
select count(*) as found, coalesce(max(updated), 0) as latest, cast(coalesce(sum(waiting), 0) as {bigint}) as waiting
from afl_runs where state in ('created', 'running')
-- name: count_open_runs
select count(*) as found from afl_runs where state in ('created', 'running')
-- name: tasks_pulse
select (select uuid from afl_tasks order by seq desc limit 1) as latest,
    (select count(*) from afl_tasks where state = 'pending' and hold = '') as pending,
    (select count(*) from afl_tasks where state = 'running') as running,
    (select count(*) from afl_tasks where {part:special_tasks}) as special
-- name: log_end
select coalesce(max(seq), 0) as found from afl_logs where runner_id = :runner_id
-- name: step_lines
select id, object_type, state, facet_name, started, ended from afl_steps where workflow_id = :workflow_id
order by started, id
-- name: step_lines_below
select id, object_type, state, facet_name, started, ended from afl_steps where id > :first and id < :beyond
order by started, id
-- name: task_lines
select uuid, step_id, state, hold, via, owner, deliveries, failures, created, started, updated from afl_tasks
where workflow_id = :workflow_id and workflow_id <> '' and step_id <> '' order by seq
-- name: running_steps
select step_id from afl_tasks where workflow_id = :workflow_id and workflow_id <> '' and state = 'running' and step_id <> ''

-- Each part by an index of its own: of tasks that ended there may be millions.
-- name: count_tasks
select task_list_name as task_list, name, state, hold, via, count(*) as count, min(created) as oldest, delayed from (
    select task_list_name, name, state, hold, via, created, case when not_before > {now} then 1 else 0 end as delayed
    from afl_tasks where state = 'pending' and hold = ''
    union all
    select task_list_name, name, state, hold, via, created, 0 as delayed from afl_tasks where state = 'running'
    union all
    select task_list_name, name, state, hold, via, created, 0 as delayed from afl_tasks
    where {part:special_tasks}
        and state = 'pending' and hold <> ''
) as open_tasks group by task_list_name, name, state, hold, via, delayed
-- name: count_runs
select state, count(*) as count from afl_runs group by state
-- name: run_figures
select workflow_name, state, created, ended from afl_runs where created >= :since order by created desc limit :limit
-- name: get_tasks_by_step
select * from afl_tasks where step_id = :step_id and step_id <> '' order by seq

-- Rows that refer to what is not there: some ids, and on each row how many there are in all.
-- name: tasks_without_run
select t.uuid as id, count(*) over () as found from afl_tasks t
where t.state in ('pending', 'running') and t.workflow_id <> '' and substr(t.name, 1, 4) <> 'afl:'
    and not exists (select 1 from afl_runs r where r.workflow_id = t.workflow_id)
order by t.seq limit :limit
-- name: tasks_without_step
select t.uuid as id, count(*) over () as found from afl_tasks t
where t.state in ('pending', 'running') and t.step_id <> '' and substr(t.name, 1, 4) <> 'afl:'
    and not exists (select 1 from afl_steps s where s.id = t.step_id)
order by t.seq limit :limit
-- name: tasks_without_flow
select t.uuid as id, count(*) over () as found from afl_tasks t
where t.state in ('pending', 'running') and t.flow_id <> ''
    and not exists (select 1 from afl_flows f where f.uuid = t.flow_id)
order by t.seq limit :limit
-- name: steps_without_run
select s.id as id, count(*) over () as found from afl_steps s
where not exists (select 1 from afl_runs r where r.workflow_id = s.workflow_id)
order by s.id limit :limit
-- name: runs_without_program
select r.workflow_id as id, count(*) over () as found from afl_runs r
where r.state in ('created', 'running', 'paused')
    and not exists (select 1 from afl_programs p where p.hash = r.program_hash)
order by r.workflow_id limit :limit
-- name: runs_without_steps
select r.workflow_id as id, count(*) over () as found from afl_runs r
where r.state in ('running', 'paused') and r.settled = 1
    and not exists (select 1 from afl_steps s where s.workflow_id = r.workflow_id)
order by r.workflow_id limit :limit
