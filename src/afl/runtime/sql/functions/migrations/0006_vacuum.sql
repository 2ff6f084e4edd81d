-- A task that was claimed leaves a dead entry at the head of the queue's index, and every claim reads past those until the
-- server has cleaned up. By default it waits for a fifth of the table, which in a large one is for days.

alter table afl_tasks set (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02);
