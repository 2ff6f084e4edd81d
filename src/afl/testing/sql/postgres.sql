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
