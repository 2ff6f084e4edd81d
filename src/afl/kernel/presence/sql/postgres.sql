-- name: take
select pg_try_advisory_lock(:key) as taken

-- name: announce
insert into afl_presence (id, server, host, pid) values (:id, pg_postmaster_start_time(), :host, :pid)
on conflict (id) do update set server = excluded.server, since = clock_timestamp()

-- name: forget
-- Those long gone; a process that still lives keeps its row by its lock, and one that just died keeps it as proof.
delete from afl_presence where since < clock_timestamp() - interval '1 day' and pg_try_advisory_xact_lock_shared(
    ('x' || substr(encode(sha256(id::bytea), 'hex'), 1, 16))::bit(64)::bigint
)

-- name: look
-- A shared lock disturbs no other who looks, and is gone with the statement.
select pg_try_advisory_xact_lock_shared(:key) as free,
       exists (select 1 from afl_presence where id = :id and server = pg_postmaster_start_time()) as same_server

-- name: describe
select host, pid from afl_presence where id = :id
