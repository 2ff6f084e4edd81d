-- name: read_head
select * from {schema:state}agent_state_head where project_id = :project and agent_id = :agent

-- name: lock_head
select * from {schema:state}agent_state_head where project_id = :project and agent_id = :agent {for_update}

-- name: lock_unlocked_head
select * from {schema:state}agent_state_head where project_id = :project and agent_id = :agent {skip_locked}

-- name: head_of_turn
select * from {schema:state}agent_state_head where project_id = :project and active_agent_turn_id = :turn

-- name: list_heads
select * from {schema:state}agent_state_head where project_id = :project order by agent_id

-- name: ensure_head
insert into {schema:state}agent_state_head (project_id, agent_id, updated_at)
values (:project, :agent, {now}) on conflict do nothing

-- name: lease
update {schema:state}agent_state_head set
    status = 'dispatched', active_agent_turn_id = :turn, active_channel_id = :channel, turn_epoch = turn_epoch + 1,
    revision = revision + 1, active_recursion_depth = :depth, updated_at = {now}, parent_step_id = :parent_step,
    trace_id = :trace, profile_box_id = :profile_box, context_box_id = :context_box, output_box_id = :output_box,
    expecting_correlation_id = :expecting, active_inbox_id = :inbox, takeovers = 0, steps = 0,
    context_headers = :headers
where project_id = :project and agent_id = :agent and status = 'idle'
returning *

-- name: use_output_box
update {schema:state}agent_state_head set output_box_id = :box
where project_id = :project and agent_id = :agent and active_agent_turn_id = :turn and turn_epoch = :epoch
    and revision = :revision
returning *

-- name: enter
update {schema:state}agent_state_head set
    status = 'running', owner = :owner, lease_until = {now} + :lease_ms, steps = steps + 1,
    revision = revision + 1, updated_at = {now}
where project_id = :project and agent_id = :agent and active_agent_turn_id = :turn and turn_epoch = :epoch
    and revision = :revision and status = 'dispatched'
returning *

-- name: go_on
update {schema:state}agent_state_head set
    steps = steps + :steps, lease_until = {greatest}(lease_until, {now} + :lease_ms), revision = revision + 1,
    updated_at = {now}
where project_id = :project and agent_id = :agent and active_agent_turn_id = :turn and turn_epoch = :epoch
    and revision = :revision and status = 'running'
returning *

-- name: suspend
update {schema:state}agent_state_head set
    status = 'suspended', owner = '', lease_until = 0, waiting_tool_count = :count,
    resume_deadline = {now} + :deadline_ms,
    expecting_correlation_id = case when context_box_id is null then expecting_correlation_id end,
    revision = revision + 1, updated_at = {now}
where project_id = :project and agent_id = :agent and active_agent_turn_id = :turn and turn_epoch = :epoch
    and revision = :revision and status = 'running'
returning *

-- name: count_down
update {schema:state}agent_state_head set
    waiting_tool_count = waiting_tool_count - 1,
    resume_deadline = (
        select min(deadline) from {schema:state}turn_waiting_tools as w
        where w.project_id = :project and w.agent_id = :agent and w.agent_turn_id = :turn and w.turn_epoch = :epoch
            and w.wait_status in ('waiting', 'received') and w.tool_call_id <> :call
    ),
    revision = revision + 1, updated_at = {now}
where project_id = :project and agent_id = :agent and active_agent_turn_id = :turn and turn_epoch = :epoch
    and revision = :revision and status = 'suspended' and waiting_tool_count > 0
returning *

-- name: resume
update {schema:state}agent_state_head set
    status = 'running', owner = :owner, lease_until = {now} + :lease_ms, steps = steps + :steps, resume_deadline = null,
    revision = revision + 1, updated_at = {now}
where project_id = :project and agent_id = :agent and active_agent_turn_id = :turn and turn_epoch = :epoch
    and revision = :revision and status = 'suspended' and waiting_tool_count = 0
returning *

-- name: end_turn
update {schema:state}agent_state_head set
    status = 'idle', active_agent_turn_id = null, active_channel_id = null, turn_epoch = turn_epoch + :bump,
    active_recursion_depth = 0, parent_step_id = null, trace_id = null, context_box_id = null, output_box_id = null,
    expecting_correlation_id = null, waiting_tool_count = 0, resume_deadline = null, active_inbox_id = null,
    owner = '', lease_until = 0, takeovers = 0, steps = 0, context_headers = '{}', revision = revision + 1,
    updated_at = {now}
where project_id = :project and agent_id = :agent and active_agent_turn_id = :turn and turn_epoch = :epoch
    and revision = :revision and status <> 'idle'
returning *

-- name: take_over
update {schema:state}agent_state_head set
    turn_epoch = turn_epoch + 1, owner = :owner, lease_until = {now} + :lease_ms, takeovers = takeovers + 1,
    revision = revision + 1, updated_at = {now}
where project_id = :project and agent_id = :agent and active_agent_turn_id = :turn and turn_epoch = :epoch
    and revision = :revision and status = 'running'
returning *

-- name: renew
update {schema:state}agent_state_head set lease_until = {greatest}(lease_until, {now} + :lease_ms)
where active_agent_turn_id is not null and status = 'running' and owner = :owner
returning project_id, agent_id, active_agent_turn_id, turn_epoch

-- name: is_free
select 1 as free from {schema:state}agent_state_head
where project_id = :project and agent_id = :agent and status = 'running'
    and (lease_until < {now} or owner {in:dead})

-- name: waiting
select * from {schema:state}turn_waiting_tools
where project_id = :project and agent_id = :agent and agent_turn_id = :turn and turn_epoch = :epoch
order by created_at, tool_call_id

-- name: wait_for
insert into {schema:state}turn_waiting_tools (
    project_id, agent_id, agent_turn_id, turn_epoch, tool_call_id, step_id, tool_name, wait_status, deadline,
    created_at, updated_at
) values (
    :project, :agent, :turn, :epoch, :call, :step, :tool, 'waiting', {now} + :deadline_ms, {now}, {now}
)

-- name: mark_received
update {schema:state}turn_waiting_tools set
    wait_status = 'received', tool_result_card_id = :card, received_at = {now}, updated_at = {now}
where project_id = :project and agent_id = :agent and agent_turn_id = :turn and turn_epoch = :epoch
    and tool_call_id = :call and (wait_status = 'waiting') is true

-- name: mark_applied
update {schema:state}turn_waiting_tools set
    wait_status = 'applied', tool_result_card_id = :card, received_at = coalesce(received_at, {now}),
    applied_at = {now}, updated_at = {now}
where project_id = :project and agent_id = :agent and agent_turn_id = :turn and turn_epoch = :epoch
    and tool_call_id = :call and wait_status in ('waiting', 'received')

-- After a takeover the new epoch waits for the open calls.

-- name: inherit_waits
update {schema:state}turn_waiting_tools set turn_epoch = :epoch, updated_at = {now}
where project_id = :project and agent_id = :agent and agent_turn_id = :turn
    and wait_status in ('waiting', 'received')

-- name: forget_waits
delete from {schema:state}turn_waiting_tools
where project_id = :project and agent_id = :agent and agent_turn_id = :turn

-- name: ends_sooner
select tool_call_id from {schema:state}turn_waiting_tools
where project_id = :project and agent_id = :agent and agent_turn_id = :turn and tool_call_id = :call
    and (wait_status = 'waiting') is true and deadline < {now} + :ms

-- name: extend_wait
update {schema:state}turn_waiting_tools set deadline = {greatest}(deadline, {now} + :deadline_ms), updated_at = {now}
where project_id = :project and agent_id = :agent and agent_turn_id = :turn and turn_epoch = :epoch
    and tool_call_id = :call and (wait_status = 'waiting') is true

-- name: move_deadline
update {schema:state}agent_state_head set
    resume_deadline = (
        select min(deadline) from {schema:state}turn_waiting_tools as w
        where w.project_id = :project and w.agent_id = :agent and w.agent_turn_id = :turn and w.turn_epoch = :epoch
            and (w.wait_status = 'waiting') is true
    ),
    revision = revision + 1, updated_at = {now}
where project_id = :project and agent_id = :agent and active_agent_turn_id = :turn and turn_epoch = :epoch
    and revision = :revision and status = 'suspended'
returning *

-- name: point_to_output
insert into {schema:state}agent_state_pointers (project_id, agent_id, last_output_box_id, updated_at)
values (:project, :agent, :box, {now})
on conflict (project_id, agent_id) do update set
    last_output_box_id = excluded.last_output_box_id, updated_at = excluded.updated_at

-- name: pointers
select memory_context_box_id, last_output_box_id from {schema:state}agent_state_pointers
where project_id = :project and agent_id = :agent

-- name: open_step
insert into {schema:state}agent_steps (
    project_id, agent_id, step_id, agent_turn_id, channel_id, parent_step_id, trace_id, status, turn_epoch, number,
    tool_call_ids, metadata, started_at
) values (
    :project, :agent, :step, :turn, :channel, :parent_step, :trace, 'started', :epoch, :number, '[]', '{}', {now}
)

-- name: close_step
update {schema:state}agent_steps set
    status = :status, error = :error, metadata = case when :metadata = '{}' then metadata else :metadata end,
    tool_call_ids = case when :calls = '[]' then tool_call_ids else :calls end,
    ended_at = case when :ended = 1 then {now} end
where project_id = :project and agent_id = :agent and agent_turn_id = :turn and step_id = :step

-- name: close_open_steps
update {schema:state}agent_steps set status = 'failed', error = :error, ended_at = {now}
where project_id = :project and agent_turn_id = :turn and ended_at is null

-- name: read_steps
select * from {schema:state}agent_steps where project_id = :project and agent_turn_id = :turn
order by number, started_at, step_id

-- name: add_edge
insert into {schema:state}execution_edges (
    edge_id, project_id, channel_id, primitive, edge_phase, source_agent_id, source_agent_turn_id, source_step_id,
    target_agent_id, target_agent_turn_id, correlation_id, enqueue_mode, recursion_depth, trace_id, parent_step_id,
    metadata, created_at
) values (
    :edge, :project, :channel, :primitive, :phase, :source, :source_turn, :source_step, :target, :target_turn,
    :correlation, :mode, :depth, :trace, :parent_step, :metadata, {now}
) on conflict (project_id, correlation_id, primitive, edge_phase) do nothing

-- name: add_new_edge
insert into {schema:state}execution_edges (
    edge_id, project_id, channel_id, primitive, edge_phase, source_agent_id, source_agent_turn_id, source_step_id,
    target_agent_id, target_agent_turn_id, correlation_id, enqueue_mode, recursion_depth, trace_id, parent_step_id,
    metadata, created_at
) values (
    :edge, :project, :channel, :primitive, :phase, :source, :source_turn, :source_step, :target, :target_turn,
    :correlation, :mode, :depth, :trace, :parent_step, :metadata, {now}
)

-- name: find_edge
select * from {schema:state}execution_edges
where project_id = :project and correlation_id = :correlation and primitive = :primitive and edge_phase = :phase

-- name: edges_of_turn
select * from {schema:state}execution_edges
where project_id = :project and (source_agent_turn_id = :turn and source_agent_turn_id <> '')
order by created_at, edge_id
