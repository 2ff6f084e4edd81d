-- name: add_identity
insert into {schema:state}identity_edges (
    edge_id, project_id, channel_id, action, source_agent_id, target_agent_id, trace_id, parent_step_id, metadata,
    created_at
) values (:edge, :project, :channel, :action, :source, :target, :trace, :step, :metadata, {now})

-- name: add_batch
insert into {schema:state}pmo_batches (
    project_id, batch_id, parent_agent_id, parent_agent_turn_id, parent_tool_call_id, parent_turn_epoch,
    parent_channel_id, task_count, status, deadline_at, metadata, created_at, updated_at
) values (
    :project, :batch, :agent, :turn, :call, :epoch, :channel, :tasks, 'running', {now} + :deadline_ms, :metadata,
    {now}, {now}
)

-- name: add_task
insert into {schema:state}pmo_batch_tasks (
    project_id, batch_task_id, batch_id, task_index, agent_id, status, next_retry_at, attempt_count,
    current_agent_turn_id, current_turn_epoch, profile_box_id, context_box_id, output_box_id, error_detail, metadata,
    created_at, updated_at
) values (
    :project, :task, :batch, :index, :agent, :status, {now}, 1, :turn, :epoch, :profile_box, :context_box,
    :output_box, :error, :metadata, {now}, {now}
)

-- name: batch_of_turn
select batch_id from {schema:state}pmo_batch_tasks where project_id = :project and current_agent_turn_id = :turn

-- name: waiting_ancestors
with recursive waiting (agent_id, turn_id) as (
    select b.parent_agent_id, b.parent_agent_turn_id
    from {schema:state}pmo_batch_tasks t
    join {schema:state}pmo_batches b on b.project_id = t.project_id and b.batch_id = t.batch_id
    where t.project_id = :project and t.current_agent_turn_id = :turn and b.status = 'running'
    union
    select b.parent_agent_id, b.parent_agent_turn_id
    from waiting w
    join {schema:state}pmo_batch_tasks t on t.project_id = :project and t.current_agent_turn_id = w.turn_id
    join {schema:state}pmo_batches b on b.project_id = t.project_id and b.batch_id = t.batch_id
    where b.status = 'running'
)
select distinct agent_id from waiting

-- name: lock_batch
select project_id, batch_id, parent_agent_id, parent_agent_turn_id, parent_tool_call_id, parent_turn_epoch,
    parent_channel_id, status, metadata, case when deadline_at < {now} then 1 else 0 end as expired
from {schema:state}pmo_batches
where project_id = :project and batch_id = :batch and status = 'running' {for_update}

-- The ends of the children are in the outbox of the same store: joining needs no message.

-- `|| ''` has PostgreSQL look up row by row: a plan made while the tables were small would read all of the project for each.

-- name: tasks_of_batch
select t.batch_id, t.batch_task_id, t.task_index, t.agent_id, t.status, t.current_agent_turn_id, t.error_detail, t.metadata,
    coalesce(o.output_box_id, t.output_box_id) as output_box_id, o.status as ended, o.payload as told,
    c.content as deliverable
from {schema:state}pmo_batch_tasks as t
left join {schema:state}outbox as o on o.position = (
    select e.position from {schema:state}outbox as e
    where e.project_id = t.project_id and e.agent_turn_id = t.current_agent_turn_id and e.kind = 'task'
)
left join {schema:cardbox}cards as c on c.project_id = o.project_id || '' and c.card_id = o.deliverable_card_id
where t.project_id = :project and t.batch_id = :batch
order by t.task_index

-- name: end_task
update {schema:state}pmo_batch_tasks set
    status = :status, output_box_id = coalesce(:output_box, output_box_id), error_detail = :error,
    metadata = :metadata, updated_at = {now}
where project_id = :project and batch_id = :batch and batch_task_id = :task and status in ('pending', 'dispatched')

-- name: end_batch
update {schema:state}pmo_batches set status = :status, updated_at = {now}
where project_id = :project and batch_id = :batch and status = 'running'

-- name: ripe_batches
select b.project_id, b.batch_id from {schema:state}pmo_batches as b
where b.status = 'running' and (b.deadline_at < {now} or exists (
    select 1 from {schema:state}pmo_batch_tasks as t
    join {schema:state}outbox as o on o.project_id = t.project_id and o.agent_turn_id = t.current_agent_turn_id
    where t.project_id = b.project_id and t.batch_id = b.batch_id and t.status in ('pending', 'dispatched')
        and t.current_agent_turn_id is not null and o.kind = 'task'
))
order by b.deadline_at
limit :limit
