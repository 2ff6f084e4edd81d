-- What models cost. Amounts of money are whole billionths of a dollar: sums of them are exact.
create table afl_usage (
    seq {identity},
    workflow_id text {binary} not null,
    step_id text not null,
    task_id text not null,
    model text not null,
    input_tokens {bigint} not null,
    output_tokens {bigint} not null,
    cache_read_tokens {bigint} not null,
    cache_write_tokens {bigint} not null,
    cost {bigint},
    time {bigint} not null,
    exchange text -- what was said, last so that sums do not read it; null: not kept, or no longer
) {strict};

create index afl_usage_run on afl_usage (workflow_id, seq);
create index afl_usage_time on afl_usage (time);
create index afl_usage_exchanges on afl_usage (time) where exchange is not null;

-- What the calls of a run cost in all, to find runs by it.
create table afl_costs (
    workflow_id text {binary} primary key,
    cost {bigint} not null
) {without_rowid};

create index afl_costs_order on afl_costs (cost);

create table afl_budgets (
    workflow_id text primary key,
    usd {bigint} check (usd >= 0),
    tokens {bigint} check (tokens >= 0),
    check (usd is not null or tokens is not null)
) {strict};

create table afl_reservations (
    id text primary key,
    workflow_id text not null,
    owner text not null,
    usd {bigint} not null,
    tokens {bigint} not null,
    lease_until {bigint} not null
) {strict};

create index afl_reservations_run on afl_reservations (workflow_id);
