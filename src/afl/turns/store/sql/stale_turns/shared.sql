-- The reads of the watchdog. Each is bounded and by index; nothing is locked.

-- name: expired_waits
select w.project_id, w.agent_id, w.agent_turn_id, w.turn_epoch, w.tool_call_id, w.step_id, w.tool_name,
    h.active_channel_id, h.active_recursion_depth, h.context_headers
from {schema:state}turn_waiting_tools as w
join {schema:state}agent_state_head as h on h.project_id = w.project_id and h.agent_id = w.agent_id
    and h.active_agent_turn_id = w.agent_turn_id and h.turn_epoch = w.turn_epoch and h.status = 'suspended'
where w.wait_status = 'waiting' and w.deadline <= (select {now})
order by w.deadline limit :limit

-- name: running_heads
select * from {schema:state}agent_state_head
where active_agent_turn_id is not null and status = 'running' and owner <> :owner
order by updated_at limit :limit

-- name: unleased_heads
select * from {schema:state}agent_state_head
where active_agent_turn_id is not null and status = 'running' and (lease_until < {now} or owner {in:dead})
order by updated_at limit :limit

-- name: stuck_heads
select * from {schema:state}agent_state_head
where active_agent_turn_id is not null and status = :status and updated_at <= {now} - :older_ms
order by updated_at limit :limit

-- name: idle_with_queue
select distinct i.project_id, i.agent_id from {schema:state}agent_inbox as i
left join {schema:state}agent_state_head as h on h.project_id = i.project_id and h.agent_id = i.agent_id
where i.status in ('queued', 'pending', 'deferred', 'processing') and i.status = 'queued'
    and coalesce(h.status, 'idle') = 'idle'
limit :limit
