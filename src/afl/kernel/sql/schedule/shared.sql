-- name: get
select * from schedule where part = :part and name = :name {for_update}

-- name: show
select * from schedule where part = :part order by name

-- name: put
insert into schedule (part, name, cron, zone, catch_up, data, paused, due, look, fired, failures, error)
values (:part, :name, :cron, :zone, :catch_up, :data, :paused, :due, :look, null, 0, '')
on conflict (part, name) do update set
    cron = excluded.cron, zone = excluded.zone, catch_up = excluded.catch_up, data = excluded.data,
    paused = excluded.paused, due = excluded.due, look = excluded.look, failures = 0, error = ''

-- name: remove
delete from schedule where part = :part and name = :name

-- name: due
select name from schedule
where part = :part and look is not null and look <= :moment
order by look, name limit :limit

-- name: next_look
select min(look) as look from schedule where part = :part and look is not null

-- name: claim
select * from schedule
where part = :part and name = :name and (look is not null and look <= :moment) is true
{skip_locked}

-- name: advance
update schedule set due = :due, look = :due, fired = :fired, failures = 0, error = ''
where part = :part and name = :name

-- name: fail
update schedule set look = :look, failures = :failures, error = :error
where part = :part and name = :name and due = :due and (look is not null) is true
