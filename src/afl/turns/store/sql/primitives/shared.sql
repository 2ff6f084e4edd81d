-- What an enqueue must know, in one reading: who asks, whom, and whether the boxes are there.

-- name: about_enqueue
select
    (select status from {schema:resource}project_agents where project_id = :project and agent_id = :source)
        as source_status,
    (select active_recursion_depth from {schema:state}agent_state_head
        where project_id = :project and active_agent_turn_id = :source_turn) as source_depth,
    t.worker_target, t.profile_box_id, t.status as target_status,
    (select kind from {schema:cardbox}card_boxes where project_id = :project and box_id = :context_box)
        as context_kind,
    (select kind from {schema:cardbox}card_boxes where project_id = :project and box_id = :output_box)
        as output_kind,
    (select kind from {schema:cardbox}card_boxes
        where project_id = :project and box_id = coalesce(:profile_box, t.profile_box_id)) as profile_kind
from {schema:resource}project_agents as t
where t.project_id = :project and t.agent_id = :target

-- name: source_status
select status from {schema:resource}project_agents where project_id = :project and agent_id = :source

-- What a report must know: the card, the request it answers, and where the turn is. `|| ''` has PostgreSQL look them up:
-- a plan made while the tables were small would read every agent of the project.

-- name: about_report
select
    c.type, c.author_id, c.tool_call_id, c.function_name, c.step_id,
    e.source_agent_id, e.source_agent_turn_id, e.recursion_depth, e.channel_id,
    h.status, h.turn_epoch, h.context_headers, a.worker_target,
    (select i.inbox_id from {schema:state}agent_inbox as i
        where i.project_id = :project and i.correlation_id = :correlation
            and i.message_type in ('tool_result', 'timeout')) as reported
from {schema:state}execution_edges as e
left join {schema:cardbox}cards as c on c.project_id = e.project_id and c.card_id = :card
left join {schema:state}agent_state_head as h on h.project_id = e.project_id || '' and h.agent_id = e.source_agent_id
    and h.active_agent_turn_id = e.source_agent_turn_id
left join {schema:resource}project_agents as a on a.project_id = e.project_id || '' and a.agent_id = e.source_agent_id
where e.project_id = :project and e.correlation_id = :correlation and e.primitive = 'tool_call'
    and e.edge_phase = 'request'
