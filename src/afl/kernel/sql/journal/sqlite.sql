-- One writer at a time: positions become visible in their order.

-- name: tail
select coalesce(max(seq), 0) as tail from sqlite_sequence where name = 'journal'
