-- Whoever writes has something to do, so there is nothing to wait for: time is not skipped then.
-- name: exclude_writers
lock table afl_runs, afl_tasks in share row exclusive mode nowait
-- name: skip
update afl_time_skipping.skipped set ms = ms + :ms
-- name: can_skip
select 1 as found where to_regclass('afl_time_skipping.skipped') is not null
    and to_regproc('clock_timestamp') = to_regproc('afl_time_skipping.clock_timestamp')
-- name: wall_clock
select {now} as wall
-- name: leased_tables
select format('%I.%I', c.table_schema, c.table_name) as name
from information_schema.columns c join information_schema.tables t
    on t.table_schema = c.table_schema and t.table_name = c.table_name and t.table_type = 'BASE TABLE'
where c.column_name = 'lease_until' and c.table_name <> 'afl_tasks'
