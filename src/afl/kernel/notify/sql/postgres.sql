-- One channel for all topics, so that listening never changes while the connection waits.

-- name: listen
listen afl_notify

-- name: notify
select pg_notify('afl_notify', :topic)

-- name: notify_all
select pg_notify('afl_notify', topic) from unnest(:topics::text[]) as topic
