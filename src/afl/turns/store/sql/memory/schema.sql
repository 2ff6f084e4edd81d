-- What agents remember, for a session or for all sessions of an agent. `scope` is `session:ID` or `agent:NAME`.
create table {schema:state}memories (
    project_id text not null,
    scope text not null,
    memory_id text not null,
    text text not null,
    agent_turn_id text not null,
    created_at {bigint} not null,
    primary key (project_id, scope, memory_id)
) {without_rowid};

-- Each word of a memory once, to find it by.
create table {schema:state}memory_words (
    project_id text not null,
    scope text not null,
    word text not null,
    memory_id text not null,
    primary key (project_id, scope, word, memory_id)
) {without_rowid};
