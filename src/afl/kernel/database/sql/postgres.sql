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

-- name: structure
-- Constraints are told by their definition: a name that the server chose counts for nothing.
with own as (
    select c.oid, c.relname, c.relkind, c.relpersistence from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname not like 'pg\_%' and n.nspname <> 'information_schema' and c.relname <> 'afl_schema'
)
select format('table %s %s %s', relname, relkind, relpersistence) as line from own where relkind in ('r', 'p', 'v', 'm')
union all
select format('column %s.%s %s not null=%s identity=%s default=%s', own.relname, a.attname,
              format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, pg_get_expr(d.adbin, d.adrelid))
       || coalesce(' collate ' || (select collname from pg_collation where oid = nullif(a.attcollation, 100)), '')
from own join pg_attribute a on a.attrelid = own.oid and a.attnum > 0 and not a.attisdropped
left join pg_attrdef d on d.adrelid = own.oid and d.adnum = a.attnum
where own.relkind in ('r', 'p')
union all
select format('constraint %s %s', own.relname, pg_get_constraintdef(k.oid))
from own join pg_constraint k on k.conrelid = own.oid where k.contype <> 'n'
union all
select format('index %s', pg_get_indexdef(i.indexrelid)) from own join pg_index i on i.indrelid = own.oid
where not exists (select 1 from pg_constraint k where k.conindid = i.indexrelid)
union all
select format('trigger %s %s', own.relname, pg_get_triggerdef(t.oid))
from own join pg_trigger t on t.tgrelid = own.oid where not t.tgisinternal
union all
select format('function %s', pg_get_functiondef(p.oid)) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname not like 'pg\_%' and n.nspname <> 'information_schema' and p.prokind = 'f'
