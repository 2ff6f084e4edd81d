-- name: schema_lock
-- Even `if not exists` fails when two sessions create the same table at once. The number says "afl" in ASCII.
select pg_advisory_xact_lock(x'61666c'::int, 1)

-- name: schema_table
select 1 as found where to_regclass('afl_schema') is not null

-- name: now
select {now} as now

-- name: server_state
select current_setting('server_version_num')::int as version, current_setting('server_version') as version_text,
    current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
    current_setting('synchronous_commit') as synchronous_commit, current_setting('autovacuum') as autovacuum,
    current_setting('max_connections')::int as max_connections, pg_is_in_recovery() as is_standby,
    (select count(*) from pg_stat_activity where backend_type = 'client backend')::int as connections,
    (select age(datfrozenxid) from pg_database where datname = current_database())::bigint as transaction_age,
    pg_database_size(current_database())::bigint as size
