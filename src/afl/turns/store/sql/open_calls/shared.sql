-- name: open_calls
select w.agent_id, w.agent_turn_id, w.tool_call_id, w.step_id, w.tool_name, h.output_box_id
from {schema:state}turn_waiting_tools as w
join {schema:state}agent_state_head as h on h.project_id = w.project_id and h.agent_id = w.agent_id
    and h.active_agent_turn_id = w.agent_turn_id and h.turn_epoch = w.turn_epoch
where w.wait_status = 'waiting' and w.deadline > 0 and w.project_id = :project and w.tool_name {in:tools}
order by w.deadline limit :limit
