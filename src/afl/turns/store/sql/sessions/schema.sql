-- Conversations with ids of their own. Times are milliseconds on the store's clock. JSON is text.

-- `agent_id` is the agent as it was defined; `actor_id` is its entry in the roster for this session, so that the turns of
-- different sessions run side by side. `turns` is how many there are, and the position of the next one.
create table {schema:state}sessions (
    project_id text not null,
    session_id text not null check (session_id <> ''),
    agent_id text not null,
    actor_id text not null,
    turns {bigint} not null default 0 check (turns >= 0),
    history {json} not null default '{}',
    budget {json} not null default '{}',
    forked_from text not null default '',
    created_at {bigint} not null,
    updated_at {bigint} not null,
    primary key (project_id, session_id)
) {without_rowid_roomy};

create index sessions_latest on {schema:state}sessions (project_id, updated_at);

-- A fork has the turns that it shares with the session it comes from.
create table {schema:state}session_turns (
    project_id text not null,
    session_id text not null,
    position {bigint} not null check (position >= 0),
    agent_turn_id text not null,
    context_box_id text not null,
    output_box_id text not null,
    primary key (project_id, session_id, position),
    foreign key (project_id, session_id) references {schema:state}sessions (project_id, session_id)
) {without_rowid};

create index session_turns_turn on {schema:state}session_turns (project_id, agent_turn_id);
