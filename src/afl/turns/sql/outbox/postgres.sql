-- name: record
with held as (
    select 1 from state.relay where name = :name and owner = :owner and epoch = :epoch for update
)
update state.outbox as o set
    sequence = done.sequence, published_at = (extract(epoch from clock_timestamp()) * 1000)::bigint
from held, unnest(:positions::bigint[], :sequences::bigint[]) as done(position, sequence)
where o.position = done.position and o.sequence is null
returning o.position
