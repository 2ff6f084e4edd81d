-- name: get_questions
select uuid, via from afl_tasks
where hold = 'elsewhere' and state = 'pending' and via >= :via_from and via < :via_beyond order by +seq limit :limit
-- name: get_failures
select workflow_id, ended from afl_runs
where ended > 0 and ended >= :since and state = 'failed'
order by ended, workflow_id limit :limit
-- name: get_alerted
select subject from afl_alerts where destination = :destination and subject {in:subjects}
-- name: save_alerted
insert into afl_alerts (destination, subject, sent) values (:destination, :subject, :sent)
on conflict (destination, subject) do nothing
-- name: forget_alerted
delete from afl_alerts where (destination, subject) in (
    select destination, subject from afl_alerts where sent < :before and subject <> '' order by sent limit :limit
) returning subject
