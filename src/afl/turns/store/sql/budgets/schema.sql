-- What models used, by account: `turn:ID`, `session:ID`, `agent:NAME`, `day:NAME:DATE`. The row without an entry is what is
-- spent; each other one is what a call under way may use at most, which ends by itself at `until`. Money is in whole
-- billionths of a dollar: sums of them are exact.
create table {schema:state}turn_budgets (
    project_id text not null,
    account text not null,
    entry text not null,
    usd {bigint} not null default 0,
    tokens {bigint} not null default 0,
    steps {bigint} not null default 0,
    ms {bigint} not null default 0,
    until {bigint} not null default 0,
    primary key (project_id, account, entry)
) {without_rowid_roomy};
