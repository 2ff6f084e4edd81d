-- name: append
insert into journal (stream, kind, key, data, at) values (:stream, :kind, :key, :data, :at)
returning position

-- name: read
select position, stream, kind, key, data, at from journal
where stream = :stream and position > :after and position <= :tail
order by position limit :limit

-- name: read_key
select position, stream, kind, key, data, at from journal
where stream = :stream and key = :key and key <> '' and position > :after and position <= :tail
order by position limit :limit

-- name: latest
select position, stream, kind, key, data, at from journal
where stream = :stream
order by position desc limit :limit

-- name: latest_key
select position, stream, kind, key, data, at from journal
where stream = :stream and key = :key and key <> ''
order by position desc limit :limit

-- name: trim
delete from journal where position in (
    select position from journal where stream = :stream and position <= :through order by position limit :limit
)

-- name: trim_older
delete from journal where position in (
    select position from (
        select position, at from journal where stream = :stream order by position limit :limit
    ) as oldest
    where at < :before
)
