-- The streams of this folder: one per agent process, gone once everything in it has been delivered.
create table spool_stream (
    incarnation text primary key not null,
    agent_id text not null
) {strict};

-- What has not been acknowledged yet: the JSON of a record.
create table spool_record (
    incarnation text not null,
    seq integer not null check (seq > 0),
    record blob not null,
    primary key (incarnation, seq)
) without rowid;
