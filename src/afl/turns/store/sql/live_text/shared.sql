-- name: store_text
insert into {schema:state}live_text as known (project_id, agent_id, agent_turn_id, step_id, turn_epoch, said)
values (:project, :agent, :turn, :step, :epoch, :said)
on conflict (project_id, agent_id) do update set
    agent_turn_id = excluded.agent_turn_id, step_id = excluded.step_id, turn_epoch = excluded.turn_epoch,
    said = excluded.said
where known.turn_epoch <= excluded.turn_epoch

-- name: text_of_step
select said from {schema:state}live_text
where project_id = :project and agent_id = :agent and agent_turn_id = :turn and step_id = :step
