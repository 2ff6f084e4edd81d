-- SQLite counts the machine's time since boot, which starts at zero again after the next boot. The row says what to
-- add to it in this boot, so that the store's clock goes on where it was and never follows a changed wall clock.

-- name: tables
select name from sqlite_master where type = 'table'

-- name: application_id
select application_id from pragma_application_id

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

-- For tests alone: no other store has this table. How many milliseconds its clock is ahead because time was skipped.
-- name: create_skipped_time
create table if not exists afl_skipped_time (one integer primary key check (one = 1), ms integer not null) strict

-- name: start_skipped_time
insert into afl_skipped_time (one, ms) values (1, 0) on conflict (one) do nothing

-- name: has_skipped_time
select 1 as found from sqlite_master where type = 'table' and name = 'afl_skipped_time'

-- name: skipped_time
select ms from afl_skipped_time
