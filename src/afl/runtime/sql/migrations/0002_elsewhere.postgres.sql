-- Work that goes on elsewhere: by an agent, on the fleet, by a message, with a person.

alter table afl_tasks add column via text {binary} not null default '';
alter table afl_tasks add column bridge text;
alter table afl_tasks add column patience_ms bigint not null default 0;
alter table afl_tasks drop constraint afl_tasks_hold_check;
alter table afl_tasks add constraint afl_tasks_hold_check
    check (hold in ('', 'concurrency', 'paused', 'poisoned', 'timeout', 'elsewhere'));
create index afl_tasks_elsewhere on afl_tasks (state, via, seq) where hold = 'elsewhere';
