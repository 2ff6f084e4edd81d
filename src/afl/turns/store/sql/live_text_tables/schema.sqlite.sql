-- What the model of an agent is saying in the step under way; one row for each agent, so it needs no clearing.
create table state_live_text (
    project_id text not null,
    agent_id text not null,
    agent_turn_id text not null,
    step_id text not null,
    turn_epoch integer not null,
    said text not null,
    primary key (project_id, agent_id)
) strict, without rowid;
