-- What the model of an agent is saying in the step under way; one row for each agent, so it needs no clearing.
-- Unlogged: the server may forget it when it crashes, and the log is spared a copy of the text with every update.
create unlogged table state.live_text (
    project_id text not null,
    agent_id text not null,
    agent_turn_id text not null,
    step_id text not null,
    turn_epoch bigint not null,
    said text not null,
    primary key (project_id, agent_id)
) with (fillfactor = 50);
