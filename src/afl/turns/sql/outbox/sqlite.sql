-- name: record
update state_outbox set
    sequence = (select json_extract(:sequences, '$[' || each.key || ']') from json_each(:positions) as each
        where each.value = state_outbox.position),
    published_at = {now}
where position in (select value from json_each(:positions)) and sequence is null
    and exists (select 1 from state_relay where name = :name and owner = :owner and epoch = :epoch)
returning position
