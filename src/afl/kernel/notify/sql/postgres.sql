-- One channel for all topics, so that listening never changes while the connection waits.

-- name: listen
listen afl_doorbell

-- name: notify
select pg_notify('afl_doorbell', :topic)

-- name: notify_all
select pg_notify('afl_doorbell', topic) from unnest(:topics::text[]) as topic
