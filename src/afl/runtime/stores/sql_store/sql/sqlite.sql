-- name: lock_key
select :key as key
