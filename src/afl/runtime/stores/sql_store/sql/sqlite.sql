-- name: lock_key
select :key as key

-- What a repeat leaves behind, by ranges of step ids. PostgreSQL has it in its commit function.
-- name: remove_attempts
delete from afl_attempts where workflow_id = :workflow_id and task_id in (
    select uuid from afl_tasks
    where step_id >= :first and step_id < :beyond and step_id <> '' and hold <> 'elsewhere')
-- name: remove_tasks
delete from afl_tasks where step_id >= :first and step_id < :beyond and step_id <> '' and hold <> 'elsewhere'
-- name: remove_events
delete from afl_events where workflow_id = :workflow_id and step_id >= :first and step_id < :beyond
-- name: remove_steps
delete from afl_steps where id >= :first and id < :beyond
-- name: unwanted_children
select c.workflow_id from afl_runs c
where c.parent_step <> '' and c.parent_told = 1 and c.ended = 0 and c.on_parent_close = 'cancel' and not exists (
    select 1 from afl_runs p where p.workflow_id = substr(c.parent_step, 1, instr(c.parent_step, '/') - 1) and p.ended = 0)
limit :limit

-- name: database_identity
select file from pragma_database_list where name = 'main'
