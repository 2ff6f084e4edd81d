-- name: ask
insert into {schema:state}tool_approvals (
    approval_id, project_id, agent_id, agent_turn_id, step_id, tool_call_id, tool_name, description, parameters,
    arguments, group_name, deadline, status, created_at
) values (
    :approval, :project, :agent, :turn, :step, :call, :tool, :description, :parameters, :arguments, :group,
    {now} + :deadline_ms, 'open', {now}
)

-- An open row is the truth only while its turn waits for it.

-- name: open_approvals
select a.*, 1 as awaited, 0 as timed_out from {schema:state}tool_approvals as a
where a.status = 'open' and a.approval_id > :after and (:group = '' or a.group_name = :group) and exists (
    select 1 from {schema:state}turn_waiting_tools as w
    where w.project_id = a.project_id and w.agent_id = a.agent_id and w.agent_turn_id = a.agent_turn_id
        and w.tool_call_id = a.approval_id and w.wait_status = 'waiting'
)
order by a.approval_id limit :limit

-- name: count_open
select a.group_name, count(*) as found, {now} - min(a.created_at) as age from {schema:state}tool_approvals as a
where a.status = 'open' and exists (
    select 1 from {schema:state}turn_waiting_tools as w
    where w.project_id = a.project_id and w.agent_id = a.agent_id and w.agent_turn_id = a.agent_turn_id
        and w.tool_call_id = a.approval_id and w.wait_status = 'waiting'
)
group by a.group_name

-- name: approvals_named
select a.*,
    (select count(*) from {schema:state}turn_waiting_tools as w
        where w.project_id = a.project_id and w.agent_id = a.agent_id and w.agent_turn_id = a.agent_turn_id
            and w.tool_call_id = a.approval_id and w.wait_status = 'waiting') as awaited,
    (select count(*) from {schema:cardbox}cards as c
        where c.project_id = a.project_id and c.tool_call_id = a.approval_id and c.type = 'tool.result') as timed_out
from {schema:state}tool_approvals as a
where a.approval_id >= :name and a.approval_id < :beyond
order by a.approval_id limit :limit

-- name: approvals_of_turn
select a.*,
    (select count(*) from {schema:state}turn_waiting_tools as w
        where w.project_id = a.project_id and w.agent_id = a.agent_id and w.agent_turn_id = a.agent_turn_id
            and w.tool_call_id = a.approval_id and w.wait_status = 'waiting') as awaited,
    (select count(*) from {schema:cardbox}cards as c
        where c.project_id = a.project_id and c.tool_call_id = a.approval_id and c.type = 'tool.result') as timed_out
from {schema:state}tool_approvals as a
where a.project_id = :project and a.agent_turn_id = :turn
order by a.approval_id

-- name: closed_approvals
select a.*, 0 as awaited, 0 as timed_out from {schema:state}tool_approvals as a
where a.status <> 'open' and (:group = '' or a.group_name = :group)
order by a.approval_id desc limit :limit

-- name: answer
update {schema:state}tool_approvals set
    status = :status, answered_by = :by, answered_at = {now}, feedback = :feedback, answer = :answer
where approval_id = :approval and status = 'open'

-- name: unawaited
select a.approval_id from {schema:state}tool_approvals as a
where a.status = 'open' and not exists (
    select 1 from {schema:state}turn_waiting_tools as w
    where w.project_id = a.project_id and w.agent_id = a.agent_id and w.agent_turn_id = a.agent_turn_id
        and w.tool_call_id = a.approval_id and w.wait_status = 'waiting'
)
limit :limit

-- name: close
update {schema:state}tool_approvals set status = :status where approval_id = :approval and status = 'open'
