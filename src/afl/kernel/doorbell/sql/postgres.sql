-- name: notify
select pg_notify('afl_doorbell', :topic)
