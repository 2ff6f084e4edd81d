-- name: take
-- Lock and row in one statement: whoever is killed on the way has either none of them or both.
with lock as materialized (select pg_try_advisory_lock(:key) as taken)
insert into afl_presence (id, server, host, pid)
select :id, pg_postmaster_start_time(), :host, :pid from lock where taken
on conflict (id) do update set server = excluded.server, since = clock_timestamp()
returning id

-- name: forget
-- Those long gone; a process that still lives keeps its row by its lock, and one that just died keeps it as proof.
delete from afl_presence where since < clock_timestamp() - interval '1 day' and pg_try_advisory_xact_lock_shared(
    ('x' || substr(encode(sha256(id::bytea), 'hex'), 1, 16))::bit(64)::bigint
)

-- name: look
-- A shared lock disturbs no other who looks, and is gone with the statement.
select pg_try_advisory_xact_lock_shared(:key) as free,
       exists (select 1 from afl_presence where id = :id and server = pg_postmaster_start_time()) as same_server

-- name: process
select host, pid from afl_presence where id = :id
