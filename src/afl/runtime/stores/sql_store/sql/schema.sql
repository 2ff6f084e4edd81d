-- The runtime's tables. Ids of steps begin with their run's id, so ranges of ids are subtrees.

create table afl_programs (
    hash text primary key,
    compiled text not null
) {strict};

create table afl_runs (
    workflow_id text {binary} primary key,
    workflow_name text not null,
    program_hash text not null,
    state text not null check (state in ('created', 'running', 'completed', 'failed', 'paused', 'canceled')),
    runner_id text not null,
    flow_id text not null,
    task_list text not null,
    outputs text not null,
    error text,
    iterations {bigint} not null,
    waiting {bigint} not null,
    settled {bigint} not null,
    created {bigint} not null,
    updated {bigint} not null,
    ended {bigint} not null,
    owner text not null,
    epoch {bigint} not null,
    lease_until {bigint} not null,
    reason text not null default '',
    -- Of a child run: the step of the parent that started it, what becomes of it when the parent ends, and whether the parent
    -- knows its end.
    parent_step text {binary} not null default '',
    on_parent_close text not null default '',
    parent_told {bigint} not null default 0,
    name text not null default '',
    tags text not null default '{}',
    -- The run that it was started again from, or the step of that run at which it was forked.
    origin text {binary} not null default ''
) {without_rowid_roomy};

-- The tags of runs as `key=value`, to find runs by them.
create table afl_tags (
    tag text {binary} not null,
    workflow_id text {binary} not null,
    primary key (tag, workflow_id)
) {without_rowid};

create index afl_tags_run on afl_tags (workflow_id);

-- Apart from the run, whose row is written again and again: inputs may be large and never change.
create table afl_inputs (
    workflow_id text primary key,
    inputs text not null
) {strict};

create index afl_runs_open on afl_runs (owner) where state in ('created', 'running');
create index afl_runs_unsettled on afl_runs (workflow_id) where settled = 0 and state in ('created', 'running');
create index afl_runs_created on afl_runs (created, workflow_id);
create index afl_runs_ended on afl_runs (ended) where ended > 0;
create index afl_runs_origin on afl_runs (origin) where origin <> '';
create index afl_runs_workflow on afl_runs (workflow_name, created, workflow_id);
create index afl_runs_budget on afl_runs (workflow_id) where state = 'paused' and substr(reason, 1, 6) = 'budget';
create index afl_runs_duration on afl_runs ((ended - created)) where ended > 0;
-- Without those that are open: every commit of a run would move its entry.
create index afl_runs_state on afl_runs (state, created, workflow_id)
    where state in ('completed', 'failed', 'canceled', 'paused');
create index afl_runs_children on afl_runs (parent_step) where parent_step <> '';
-- Open ones that no step waits for.
create index afl_runs_unawaited on afl_runs (parent_step) where parent_step <> '' and parent_told = 1 and ended = 0;
create index afl_runs_untold on afl_runs (ended) where parent_step <> '' and parent_told = 0 and ended > 0;

create table afl_steps (
    id text {binary} primary key,
    workflow_id text {binary} not null,
    object_type text not null,
    state text not null,
    statement_id text,
    container_type text,
    container_id text,
    block_id text,
    root_id text,
    facet_name text not null,
    params text not null,
    returns text not null,
    error text,
    progress text,
    extra text,
    started {bigint} not null,
    ended {bigint} not null
) {without_rowid_roomy};

create index afl_steps_run on afl_steps (workflow_id);
create index afl_steps_open on afl_steps (workflow_id, state)
    where state <> 'state.statement.Complete' and state <> 'state.statement.Error';

-- A task is its own event, under its uuid; here stand StepContinue marks, and what callers save.
create table afl_events (
    id text {binary} primary key,
    step_id text not null,
    workflow_id text {binary} not null,
    state text not null,
    event_type text not null,
    payload text not null
) {without_rowid};

create index afl_events_run on afl_events (workflow_id);
create index afl_events_mark on afl_events (workflow_id, id) where event_type = 'StepContinue';

create table afl_tasks (
    seq {place},
    uuid text not null unique,
    name text not null,
    short_name text not null,
    runner_id text not null,
    workflow_id text {binary} not null,
    flow_id text not null,
    step_id text not null,
    state text not null {if_sqlite} check (
        state = 'pending' or state = 'running' or state = 'completed' or state = 'failed' or state = 'ignored'
        or state = 'canceled') {end_if},
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
    -- What only some tasks have; a new task is inserted without, and most never get any.
    timeout_ms {bigint} not null default 0,
    retry text,
    concurrency_key text not null default '',
    concurrency_limit {bigint} not null default 0,
    hold text not null default '' {if_sqlite} check (
        hold = '' or hold = 'concurrency' or hold = 'paused' or hold = 'poisoned' or hold = 'timeout' or hold = 'elsewhere'
        or hold = 'timer')
        {end_if},
    not_before {bigint} not null default 0,
    deadline {bigint} not null default 0,
    failures {bigint} not null default 0,
    lock_until {bigint} not null default 0,
    last_owner text not null default '',
    via text {binary} not null default '',
    bridge text,
    patience_ms {bigint} not null default 0,
    expiries {bigint} not null default 0,
    while_alive {bigint} not null default 0,
    host text not null default '',
    pid {bigint} not null default 0
) {strict};

-- PostgreSQL has no checks on tasks and runs: see functions/schema.sql. For those of SQLite, and for the conditions of its
-- indexes: to look into a list of three words and more it makes a table of them each time, a tenth of a small insert.
-- Few indexes with a condition: PostgreSQL prepares every one of them anew for every statement that writes a task.
create unique index afl_tasks_one_running_per_step on afl_tasks (step_id) where state = 'running' and step_id <> '';
create index afl_tasks_step on afl_tasks (step_id) {if_any:step_id};
create index afl_tasks_run on afl_tasks (workflow_id) {if_any:workflow_id};
create index afl_tasks_pending on afl_tasks (task_list_name, priority desc, seq) where state = 'pending' and hold = '';
create index afl_tasks_running on afl_tasks (owner) where state = 'running';
create index afl_tasks_special on afl_tasks (hold, concurrency_key, priority desc, seq)
    where (concurrency_key <> '' or hold <> '' or not_before > 0) and state in ('pending', 'running');
-- What is done elsewhere, and what has ended without the other side having been told.
create index afl_tasks_elsewhere on afl_tasks (state, via, workflow_id, seq) where hold = 'elsewhere';
-- When timers fire, and when the time of what is done elsewhere is up.
create index afl_tasks_deadline on afl_tasks (hold, deadline) where deadline > 0 and state = 'pending';
-- What goes with no run when it is old.
create index afl_tasks_loose on afl_tasks (updated)
    where step_id = '' and state not in ('pending', 'running');

-- Attempts that ended without a result, each written once. One that goes on, or ended well, is its task's row.
create table afl_attempts (
    workflow_id text {binary} not null,
    task_id text {binary} not null,
    number {bigint} not null,
    step_id text not null,
    worker text not null,
    outcome text not null,
    host text not null,
    pid {bigint} not null,
    queued {bigint} not null,
    started {bigint} not null,
    ended {bigint} not null,
    error_type text not null,
    error text not null,
    location text not null,
    traceback text not null,
    retry_ms {bigint},
    primary key (workflow_id, task_id, number)
) {without_rowid};

-- Signals to runs, in the order of their delivery. A signal with a task has been received by it.
create table afl_signals (
    seq {identity},
    workflow_id text {binary} not null,
    id text not null,
    name text not null,
    value text not null,
    created {bigint} not null,
    task_id text not null default '',
    unique (workflow_id, id)
) {strict};

create index afl_signals_waiting on afl_signals (workflow_id, name, seq) where task_id = '';

-- The latest value of each name that a run has published.
create table afl_published (
    workflow_id text {binary} not null,
    name text not null,
    value text not null,
    updated {bigint} not null,
    primary key (workflow_id, name)
) {without_rowid};

-- What happened in each commit of a run, as JSON.
create table afl_history (
    workflow_id text {binary} not null,
    number {bigint} not null,
    events text not null,
    primary key (workflow_id, number)
) {without_rowid};

create table afl_runners (
    uuid text primary key,
    workflow_id text not null,
    state text not null,
    start_time {bigint} not null,
    end_time {bigint} not null,
    duration {bigint} not null,
    record text not null
) {strict};

create index afl_runners_run on afl_runners (workflow_id);
create index afl_runners_state on afl_runners (state);

create table afl_flows (
    seq {identity},
    uuid text not null unique,
    name text not null,
    path text not null,
    record text not null
) {strict};

create table afl_workflows (
    seq {identity},
    uuid text not null unique,
    name text not null,
    flow_id text not null,
    date {bigint} not null,
    record text not null
) {strict};

create index afl_workflows_flow on afl_workflows (flow_id);
create index afl_workflows_name on afl_workflows (name);

create table afl_servers (
    uuid text primary key,
    state text not null,
    start_time {bigint} not null,
    ping_time {bigint} not null,
    record text not null
) {strict};

create table afl_locks (
    key text primary key,
    owner text not null,
    acquired_at {bigint} not null,
    expires_at {bigint} not null,
    meta text
) {strict};

-- When the next task of a rate may begin. `given`: one may be claimed, from `next_at` on; the one after it not before
-- `interval_ms` have passed since.
create table afl_rates (
    key text primary key,
    next_at {bigint} not null,
    given {bigint} not null,
    interval_ms {bigint} not null
) {strict};

create table afl_logs (
    seq {identity},
    uuid text not null unique,
    runner_id text not null,
    position {bigint} not null,
    time {bigint} not null,
    record text not null
) {strict};

create index afl_logs_runner on afl_logs (runner_id, seq);
