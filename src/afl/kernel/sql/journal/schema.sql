-- Append-only records. Positions only grow; what was trimmed is never numbered again.
create table journal (
    position {identity},
    stream text not null check (stream <> ''),
    kind text not null check (kind <> ''),
    key text not null,
    data {json} not null,
    at {bigint} not null
) {strict};

create index journal_stream on journal (stream, position);

create index journal_key on journal (stream, key, position) where key <> '';
