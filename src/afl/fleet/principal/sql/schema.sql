-- The principal's tables. Times that end a hold (`lease_until`) are the store's clock, all others wall-clock ms.

-- A run that waits has no incarnation; one that is held has a lease, and only its epoch may write to it.
create table fleet_runs (
    number {identity},
    run_id text {binary} not null unique,
    workflow_id text {binary} not null,
    workflow_name text not null,
    workflow {json} not null,
    params {json} not null,
    instance_id text {binary} not null,
    origin text not null,
    status text not null check (status in (
        'PENDING', 'WAITING', 'RUNNING', 'COMPLETED', 'FAILED', 'CRASHED', 'CANCELED')),
    agent_id text {binary} not null default '',
    incarnation text {binary} not null default '',
    old {bigint} not null default 0,
    epoch {bigint} not null default 0,
    lease_until {bigint},
    requeued {bigint} not null default 0,
    requeues {bigint} not null,
    cancel_reason text,
    error text not null default '',
    created_at {bigint} not null,
    started_at {bigint},
    ended_at {bigint},
    version {bigint} not null default 1,
    needs text not null default '', -- what agents of the reference do not know: they are not given such a run
    check ((lease_until is null) = (incarnation = '')),
    check (incarnation = '' or status in ('PENDING', 'RUNNING')),
    check (status <> 'RUNNING' or incarnation <> '')
) {strict};

create index fleet_runs_queue on fleet_runs (number, needs) where status = 'PENDING' and incarnation = '';
create index fleet_runs_held on fleet_runs (incarnation) where incarnation <> '';
create index fleet_runs_lease on fleet_runs (lease_until) where incarnation <> '';
create index fleet_runs_open on fleet_runs (workflow_id, number) where status in ('PENDING', 'WAITING', 'RUNNING');
create index fleet_runs_workflow on fleet_runs (workflow_id, number);
create index fleet_runs_instance on fleet_runs (instance_id);
create index fleet_runs_ended on fleet_runs (ended_at, number) where ended_at is not null;

-- The last attempt of each task of a run.
create table fleet_tasks (
    run_id text {binary} not null,
    task_id text {binary} not null,
    task_instance_id text {binary} not null,
    epoch {bigint} not null,
    status text not null check (status in (
        'PENDING', 'WAITING', 'RUNNING', 'COMPLETED', 'FAILED', 'CRASHED', 'SKIPPED', 'CANCELED')),
    attempt {bigint} not null,
    exit_code {bigint},
    error text not null default '',
    started_at {bigint},
    ended_at {bigint},
    primary key (run_id, task_id)
) {strict};

create table fleet_agents (
    agent_id text {binary} primary key,
    incarnation text {binary} not null,
    slots {bigint} not null,
    last_seen {bigint} not null
) {strict};

-- How far each stream of each incarnation is stored: everything up to `acked` is, nothing after it.
create table fleet_streams (
    incarnation text {binary} not null,
    stream text {binary} not null,
    acked {bigint} not null,
    primary key (incarnation, stream)
) {strict};

-- Positions of log lines, counted without gap.
create table fleet_counters (
    name text primary key,
    value {bigint} not null
) {strict};

-- Lines that came together: `lines` is a JSON array, `position` the number of its first line, `last` that of its last.
create table fleet_log_blocks (
    position {bigint} primary key,
    last {bigint} not null,
    workflow_id text {binary} not null,
    workflow_name text not null,
    workflow_instance_id text {binary} not null,
    task_name text not null,
    task_instance_id text {binary} not null,
    timestamp_ms {bigint} not null,
    level text not null,
    lines {json} not null
) {strict};

create index fleet_log_blocks_time on fleet_log_blocks (timestamp_ms, position);
create index fleet_log_blocks_instance on fleet_log_blocks (workflow_instance_id, last);
create index fleet_log_blocks_workflow on fleet_log_blocks (workflow_id, timestamp_ms);

-- Every status that was reported or decided, in order. `late`: it came too late to count, and is kept for the record.
create table workflow_run_status (
    position {identity},
    workflow_id text {binary} not null,
    workflow_instance_id text {binary} not null,
    status text not null,
    timestamp_ms {bigint} not null,
    run_id text {binary} not null,
    agent_id text {binary} not null,
    epoch {bigint} not null,
    late {bigint} not null
) {strict};

create index workflow_run_status_run on workflow_run_status (run_id, position);
create index workflow_run_status_instance on workflow_run_status (workflow_instance_id, position);

create table task_run_status (
    position {identity},
    task_id text {binary} not null,
    task_instance_id text {binary} not null,
    workflow_instance_id text {binary} not null,
    status text not null,
    timestamp_ms {bigint} not null,
    run_id text {binary} not null,
    epoch {bigint} not null,
    exit_code {bigint},
    late {bigint} not null
) {strict};

create index task_run_status_run on task_run_status (run_id, position);

-- The last row of workflow_run_status that counts, per workflow.
create table fleet_latest (
    workflow_id text {binary} primary key,
    position {bigint} not null
) {strict};

create index fleet_latest_position on fleet_latest (position);
