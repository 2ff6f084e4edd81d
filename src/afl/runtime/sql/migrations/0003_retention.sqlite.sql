-- What is old is found by an index. And fewer pages to write for each new task: its number needs no table of its own, and
-- what it has none of no index; and checks that make no table of their words each time.
-- SQLite changes no primary key of a table that is there, so the table is made anew and takes over the rows.

create table afl_tasks_new (
    seq {place},
    uuid text not null unique,
    name text not null,
    short_name text not null,
    runner_id text not null,
    workflow_id text {binary} not null,
    flow_id text not null,
    step_id text not null,
    state text not null check (
        state = 'pending' or state = 'running' or state = 'completed' or state = 'failed' or state = 'ignored'
        or state = 'canceled'),
    created {bigint} not null,
    updated {bigint} not null,
    error text,
    task_list_name text not null,
    data_type text not null,
    data text,
    priority {bigint} not null,
    owner text not null,
    epoch {bigint} not null,
    lease_until {bigint} not null,
    started {bigint} not null,
    deliveries {bigint} not null,
    deaths {bigint} not null,
    result text,
    timeout_ms {bigint} not null default 0,
    retry text,
    concurrency_key text not null default '',
    concurrency_limit {bigint} not null default 0,
    hold text not null default '' check (
        hold = '' or hold = 'concurrency' or hold = 'paused' or hold = 'poisoned' or hold = 'timeout' or hold = 'elsewhere'),
    not_before {bigint} not null default 0,
    deadline {bigint} not null default 0,
    failures {bigint} not null default 0,
    lock_until {bigint} not null default 0,
    last_owner text not null default '',
    via text {binary} not null default '',
    bridge text,
    patience_ms {bigint} not null default 0
) {strict};

insert into afl_tasks_new (
    seq, uuid, name, short_name, runner_id, workflow_id, flow_id, step_id, state, created, updated, error,
    task_list_name, data_type, data, priority, owner, epoch, lease_until, started, deliveries, deaths, result,
    timeout_ms, retry, concurrency_key, concurrency_limit, hold, not_before, deadline, failures, lock_until,
    last_owner, via, bridge, patience_ms
)
select
    seq, uuid, name, short_name, runner_id, workflow_id, flow_id, step_id, state, created, updated, error,
    task_list_name, data_type, data, priority, owner, epoch, lease_until, started, deliveries, deaths, result,
    timeout_ms, retry, concurrency_key, concurrency_limit, hold, not_before, deadline, failures, lock_until,
    last_owner, via, bridge, patience_ms
from afl_tasks;

drop table afl_tasks;
alter table afl_tasks_new rename to afl_tasks;

create unique index afl_tasks_one_running_per_step on afl_tasks (step_id) where state = 'running' and step_id <> '';
create index afl_tasks_step on afl_tasks (step_id) {if_any:step_id};
create index afl_tasks_run on afl_tasks (workflow_id) {if_any:workflow_id};
create index afl_tasks_pending on afl_tasks (task_list_name, priority desc, seq) where state = 'pending' and hold = '';
create index afl_tasks_running on afl_tasks (owner) where state = 'running';
create index afl_tasks_special on afl_tasks (concurrency_key, hold, priority desc, seq)
    where (concurrency_key <> '' or hold <> '' or not_before > 0) and state in ('pending', 'running');
create index afl_tasks_elsewhere on afl_tasks (state, via, seq) where hold = 'elsewhere';
create index afl_tasks_loose on afl_tasks (updated)
    where step_id = '' and state not in ('pending', 'running');
create index afl_runs_ended on afl_runs (ended) where ended > 0;
