-- SQLite counts the machine's time since boot, which starts at zero again after the next boot. The row says what to
-- add to it in this boot, so that the store's clock goes on where it was and never follows a changed wall clock.

-- name: tables
select name from sqlite_master where type = 'table'

-- name: create_clock
create table afl_clock (
    one integer primary key check (one = 1),
    boot text not null,
    shift integer not null,
    seen integer not null
) strict

-- name: read_clock
select boot, shift, seen from afl_clock

-- name: set_clock
insert into afl_clock (one, boot, shift, seen) values (1, :boot, :shift, :seen)
on conflict (one) do update set boot = excluded.boot, shift = excluded.shift, seen = excluded.seen

-- name: schema_lock
-- The write transaction is exclusive already.
select 1

-- name: schema_table
select 1 from sqlite_master where type = 'table' and name = 'afl_schema'
