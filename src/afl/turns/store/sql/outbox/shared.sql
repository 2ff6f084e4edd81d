-- name: store
insert into {schema:state}outbox (
    out_id, project_id, kind, subject, headers, payload, agent_id, agent_turn_id, status, output_box_id,
    deliverable_card_id, created_at
) values (
    :out, :project, :kind, :subject, :headers, :payload, :agent, :turn, :status, :box, :card, {now}
)

-- name: task_of_turn
select * from {schema:state}outbox where project_id = :project and agent_turn_id = :turn and kind = 'task'

-- name: unpublished
select * from {schema:state}outbox where sequence is null order by position limit :limit

-- name: last_sequences
select each_subjects.value as subject, (
    select max(o.sequence) from {schema:state}outbox as o
    where o.subject = each_subjects.value and o.sequence is not null
) as sequence
from {each:subjects}

-- name: last_sequence
select coalesce(max(sequence), 0) as sequence from {schema:state}outbox where sequence is not null

-- name: following
select * from {schema:state}outbox where sequence > :after order by sequence limit :limit

-- name: take_relay
insert into {schema:state}relay as held (name, owner, epoch, lease_until) values (:name, :owner, 1, {now} + :lease_ms)
on conflict (name) do update set
    epoch = held.epoch + case when held.owner = excluded.owner then 0 else 1 end,
    owner = excluded.owner, lease_until = excluded.lease_until
where held.owner = excluded.owner or held.lease_until < {now} or held.owner {in:dead}
returning epoch, lease_until

-- name: relay_row
select owner, epoch, lease_until from {schema:state}relay where name = :name

-- name: lock_relay
select 1 as held from {schema:state}relay where name = :name and owner = :owner and epoch = :epoch {for_update}

-- name: record
update {schema:state}outbox set sequence = :sequence, published_at = {now}
where position = :position and (sequence is null) is true

-- name: drop_relay
update {schema:state}relay set lease_until = 0, owner = '' where name = :name and owner = :owner

-- name: open_cursor
insert into {schema:state}bus_cursors (consumer, sequence, attempts, owner, lease_until)
values (:consumer, 0, 0, '', 0) on conflict (consumer) do nothing

-- name: read_cursor
select sequence, owner from {schema:state}bus_cursors where consumer = :consumer

-- name: take_cursor
update {schema:state}bus_cursors set owner = :owner, lease_until = {now} + :lease_ms
where consumer = :consumer and (owner = :owner or owner = '' or lease_until < {now} or owner {in:dead})
returning sequence, attempts

-- name: advance_cursor
update {schema:state}bus_cursors set sequence = :sequence, attempts = :attempts, lease_until = {now} + :lease_ms
where consumer = :consumer and owner = :owner

-- name: drop_cursor
update {schema:state}bus_cursors set owner = '', lease_until = 0 where consumer = :consumer and owner = :owner

-- The last one stays: the next one is numbered after it.

-- name: prune
delete from {schema:state}outbox where position in (
    select position from {schema:state}outbox
    where sequence is not null and published_at < {now} - :older_ms and kind = 'cmd'
        and sequence < (select max(sequence) from {schema:state}outbox where sequence is not null)
    order by position limit :limit
)
