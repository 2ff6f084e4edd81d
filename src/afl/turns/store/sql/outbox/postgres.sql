-- name: record
with held as (
    select 1 from state.relay where name = :name and owner = :owner and epoch = :epoch for update
)
update state.outbox as o set
    sequence = done.sequence, published_at = (extract(epoch from clock_timestamp()) * 1000)::bigint
from held, unnest(:positions::bigint[], :sequences::bigint[]) as done(position, sequence)
where o.position = done.position and (o.sequence is null) is true
returning o.position

-- What was published is recorded, and what there is next is read, in one round trip. `recorded` is on every row; there
-- is one without a position when nothing is left.

-- name: record_and_look
with held as (
    select 1 from state.relay where name = :name and owner = :owner and epoch = :epoch for update
), done as (
    update state.outbox as o set
        sequence = taken.sequence, published_at = (extract(epoch from clock_timestamp()) * 1000)::bigint
    from held, unnest(:positions::bigint[], :sequences::bigint[]) as taken(position, sequence)
    where o.position = taken.position and (o.sequence is null) is true
    returning o.position
)
select counted.recorded, o.*
from (select count(*) as recorded from done) as counted
left join lateral (
    select * from state.outbox where sequence is null and position <> all(:positions::bigint[])
    order by position limit :limit
) as o on true
