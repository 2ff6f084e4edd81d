-- One channel for all topics, so that listening never changes while the connection waits.

-- name: listen
listen afl_notify

-- name: notify
select pg_notify('afl_notify', :payload)

-- name: notify_all
select pg_notify('afl_notify', payload) from unnest(:payloads::text[]) as payload
