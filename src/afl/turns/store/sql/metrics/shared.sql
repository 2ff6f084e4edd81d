-- name: inbox
select project_id, status, count(*) as found, {now} - min(created_at) as age from {schema:state}agent_inbox
where status in ('queued', 'pending', 'deferred', 'processing') group by project_id, status

-- name: heads
select project_id, status, count(*) as found from {schema:state}agent_state_head
where active_agent_turn_id is not null group by project_id, status

-- name: waits
select project_id, count(*) as found from {schema:state}turn_waiting_tools
where wait_status = 'waiting' group by project_id

-- name: outbox
select project_id, count(*) as found, {now} - min(created_at) as age from {schema:state}outbox
where sequence is null group by project_id
