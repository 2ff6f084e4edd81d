-- Who holds a liveness lock, and under which run of the server it was taken. Unlogged on purpose: a server that crashed
-- has dropped every session and empties this table, one that was restarted has another start time, and a standby that
-- took over has neither. In each case the locks are free although nobody died, and here it shows.
create unlogged table afl_presence (
    id text primary key,
    server timestamptz not null,
    host text not null,
    pid bigint not null,
    since timestamptz not null default clock_timestamp()
);
