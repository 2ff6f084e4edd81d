-- name: leave
insert into state_outbox (
    out_id, project_id, kind, subject, headers, payload, agent_id, agent_turn_id, status, output_box_id,
    deliverable_card_id, created_at
) values (
    :out, :project, :kind, :subject, :headers, :payload, :agent, :turn, :status, :box, :card, {now}
)
returning position, created_at as at

-- name: left_before
select max(position) as position from state_outbox
where sequence is null and subject = :subject and position < :position

-- name: record
update state_outbox set
    sequence = (select json_extract(:sequences, '$[' || each.key || ']') from json_each(:positions) as each
        where each.value = state_outbox.position),
    published_at = {now}
where position in (select value from json_each(:positions)) and sequence is null
    and exists (select 1 from state_relay where name = :name and owner = :owner and epoch = :epoch)
returning position
