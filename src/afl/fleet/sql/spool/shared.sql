-- name: open_stream
insert into spool_stream (incarnation, agent_id) values (:incarnation, :agent_id)

-- name: streams
select incarnation, agent_id from spool_stream order by incarnation

-- name: append
insert into spool_record (incarnation, seq, record) values (:incarnation, :seq, :record)

-- name: next_sizes
select seq, length(record) as size from spool_record
where incarnation = :incarnation and seq > :after order by seq limit :limit

-- name: next_records
select seq, record from spool_record
where incarnation = :incarnation and seq > :after and seq <= :last order by seq

-- name: range
select min(seq) as first, max(seq) as last from spool_record where incarnation = :incarnation

-- name: forget
delete from spool_record where incarnation = :incarnation and seq <= :acked

-- name: close_stream
delete from spool_stream where incarnation = :incarnation
    and not exists (select 1 from spool_record where spool_record.incarnation = :incarnation)
