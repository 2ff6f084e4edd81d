-- The row of a turn bears its id. `is true` keeps PostgreSQL to the order of positions, of which it needs few, and
-- `|| ''` has it look up row by row: it would read all of the project otherwise, for each row again.

-- name: turns_between
select agent_turn_id, agent_id from {schema:state}agent_inbox
where project_id = :project and message_type in ('turn', 'ui_action')
    and inbox_id >= :low and inbox_id < :high
order by inbox_id limit 3

-- name: latest_turns
select i.agent_turn_id, i.agent_id, i.message_type, i.status, i.channel_id, i.payload, i.created_at, i.last_error,
    h.status as head_status, o.status as end_status, o.payload as told, o.created_at as ended_at
from {schema:state}agent_inbox as i
left join {schema:state}agent_state_head as h
    on h.project_id = i.project_id || '' and h.active_agent_turn_id = i.agent_turn_id
left join {schema:state}outbox as o on o.position = (
    select e.position from {schema:state}outbox as e
    where e.project_id = i.project_id and e.agent_turn_id = i.agent_turn_id and e.kind = 'task'
)
where (i.project_id = :project and i.message_type in ('turn', 'ui_action')) is true
    and (:agent = '' or i.agent_id = :agent)
order by i.position desc limit :limit offset :skip

-- name: turn_at_a_glance
select i.agent_turn_id, i.agent_id, i.message_type, i.status, i.channel_id, i.payload, i.created_at, i.last_error,
    h.status as head_status, o.status as end_status, o.payload as told, o.created_at as ended_at
from {schema:state}agent_inbox as i
left join {schema:state}agent_state_head as h
    on h.project_id = i.project_id || '' and h.active_agent_turn_id = i.agent_turn_id
left join {schema:state}outbox as o on o.position = (
    select e.position from {schema:state}outbox as e
    where e.project_id = i.project_id and e.agent_turn_id = i.agent_turn_id and e.kind = 'task'
)
where i.project_id = :project and i.inbox_id = :turn and (i.message_type in ('turn', 'ui_action')) is true

-- name: last_instruction
select c.content from {schema:cardbox}box_cards as b
join {schema:cardbox}cards as c on c.project_id = b.project_id || '' and c.card_id = b.card_id
where b.project_id = :project and b.box_id = :box and c.type = 'task.instruction'
order by b.position desc limit 1

-- name: queued_counts
select agent_id, count(*) as queued from {schema:state}agent_inbox
where project_id = :project and status = 'queued' and status in ('queued', 'pending', 'deferred', 'processing')
group by agent_id

-- name: queue_ahead
select count(*) as ahead from {schema:state}agent_inbox
where project_id = :project and agent_id = :agent and status = 'queued'
    and status in ('queued', 'pending', 'deferred', 'processing') and position < (
    select position from {schema:state}agent_inbox where project_id = :project and inbox_id = :turn
        and (message_type in ('turn', 'ui_action')) is true
)

-- name: edges_about
select * from {schema:state}execution_edges
where project_id = :project and source_agent_turn_id = :turn and source_agent_turn_id <> ''
union
select * from {schema:state}execution_edges
where project_id = :project and trace_id = :trace and target_agent_turn_id = :turn
order by created_at, edge_id

-- name: pending_of_agent
select * from {schema:state}agent_inbox
where project_id = :project and agent_id = :agent and status in ('pending', 'deferred', 'processing')
    and status in ('queued', 'pending', 'deferred', 'processing')
order by next_retry_at, position
