-- name: thought_of_step
select card_id, type, author_id, role, agent_turn_id, step_id, tool_call_id, function_name, content, tool_calls,
    metadata, created_at
from {schema:cardbox}cards
where project_id = :project and agent_turn_id = :turn and agent_turn_id <> '' and step_id = :step
    and type = 'agent.thought'

-- A worker without a free slot still claims stop messages.

-- name: claim_stops
with chosen as {materialized} (
    select position from {schema:state}agent_inbox
    where worker_target {in:targets} and status in ('pending', 'deferred') and next_retry_at <= (select {now})
        and message_type = 'stop'
    order by next_retry_at, position limit :limit {skip_locked}
)
update {schema:state}agent_inbox set status = 'processing', claimed_by = :owner, processed_at = {now}
where position in (select position from chosen)
returning *

-- `|| ''` has PostgreSQL look up row by row: a plan made while the tables were small would read all of the project for each.

-- name: read_boxes
select b.box_id, c.card_id, c.type, c.author_id, c.role, c.agent_turn_id, c.step_id, c.tool_call_id, c.function_name,
    c.content, c.tool_calls, c.metadata, c.created_at
from {schema:cardbox}box_cards as b
join {schema:cardbox}cards as c on c.project_id = b.project_id || '' and c.card_id = b.card_id
where b.project_id = :project and b.box_id {in:boxes}
order by b.box_id, b.position

-- A worker that stops releases its turns. That is no death, but the takeover counts one: hence the decrement.

-- name: leave_turns
update {schema:state}agent_state_head set lease_until = 0, takeovers = takeovers - 1
where active_agent_turn_id is not null and status = 'running' and owner = :owner
returning agent_id

-- name: leave_turn
update {schema:state}agent_state_head set lease_until = 0, takeovers = takeovers - 1
where project_id = :project and agent_id = :agent and active_agent_turn_id = :turn and turn_epoch = :epoch
    and status = 'running' and owner = :owner
returning agent_id
