-- name: create_schema_table
create table if not exists afl_schema (
    component text primary key,
    version integer not null
) {strict}

-- name: schema_version
select version from afl_schema where component = :component

-- name: schema_versions
select component, version from afl_schema

-- name: set_schema_version
insert into afl_schema (component, version) values (:component, :version)
on conflict (component) do update set version = excluded.version
