-- A position is taken when a row is inserted and seen when its transaction commits, perhaps after a higher one.
-- So each transaction, before it takes its first position, holds a shared advisory lock whose key tells the last
-- position taken before: all of its own are higher. The tail is the highest position below every such lock.
--
-- Why no row at or below the tail can appear later: let p be such a row's position. It was taken before `taken` was
-- read, so its transaction's lock was there when the locks were read afterwards, or the transaction had ended and its
-- rows are visible to every later statement (a commit is visible before its locks are released). In the first case
-- the lock's floor, which is less than p, would have kept the tail below p. Hence the two rules: `taken` is read
-- before the locks (the lateral join depends on it), and the rows in a later transaction than the tail.
--
-- Keys are 0x6a6c ("jl") in the highest 16 bits and the position in the other 48. Nobody else locks such keys in
-- shared mode. The setting afl.journal lasts as long as the transaction or savepoint that holds the lock.

-- name: append
with fence as materialized (
    select case when coalesce(current_setting('afl.journal', true), '') = '' then
        pg_advisory_xact_lock_shared((27244::bigint << 48) | case when is_called then last_value else 0 end) is null
        or set_config('afl.journal', 'fenced', true) is null
    end as done
    from journal_position_seq
)
insert into journal (stream, kind, key, data, at)
select :stream::text, :kind::text, :key::text, :data::text, :at::bigint from fence
returning position

-- name: tail
with taken as materialized (
    select case when is_called then last_value else 0 end as position from journal_position_seq
)
select least(taken.position, locked.floor) as tail
from taken cross join lateral (
    select min(((classid::bigint & 65535) << 32) | objid::bigint) as floor
    from pg_locks
    where locktype = 'advisory' and mode = 'ShareLock' and objsubid = 1 and granted
        and database = (select oid from pg_database where datname = current_database())
        and (classid::bigint >> 16) = 27244 and taken.position >= 0
) as locked
