-- A write transaction is the only one already.
-- name: exclude_writers
select 1 as done
-- name: skip
update afl_skipped_time set ms = ms + :ms
-- name: can_skip
select 1 as found from sqlite_master where type = 'table' and name = 'afl_skipped_time'
-- Schedules go by the machine's clock.
-- name: wall_clock
select ms + :machine as wall from afl_skipped_time
-- Runs, turns, relays ... of whatever part has tables here. A task has a lease only while it runs.
-- name: leased_tables
select m.name from sqlite_master m join pragma_table_info(m.name) c on c.name = 'lease_until'
where m.type = 'table' and m.name <> 'afl_tasks'
