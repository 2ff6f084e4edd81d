-- name: touch_blob
insert into {schema:cardbox}blobs (sha256, size, touched_at, check_at)
values (:sha256, :size, {now}, {now} + :grace_ms)
on conflict (sha256) do update set touched_at = excluded.touched_at, check_at = excluded.check_at

-- name: add_card
insert into {schema:cardbox}blob_cards (sha256, project_id, card_id) values (:sha256, :project, :card)
on conflict (sha256, project_id, card_id) do nothing

-- name: is_kept
select 1 as found from {schema:cardbox}blobs where sha256 = :sha256

-- name: to_check
select sha256 from {schema:cardbox}blobs where check_at <= {now} order by check_at limit :limit

-- name: expired
select sha256 from {schema:cardbox}blobs where touched_at < {now} - :keep_ms order by touched_at limit :limit

-- name: lock_to_check
select sha256 from {schema:cardbox}blobs where sha256 = :sha256 and check_at <= {now} {for_update}

-- name: lock_expired
select sha256 from {schema:cardbox}blobs where sha256 = :sha256 and touched_at < {now} - :keep_ms {for_update}

-- name: drop_missing_cards
delete from {schema:cardbox}blob_cards
where sha256 = :sha256 and not exists (
    select 1 from {schema:cardbox}cards c
    where c.project_id = {schema:cardbox}blob_cards.project_id and c.card_id = {schema:cardbox}blob_cards.card_id
)

-- name: has_card
select 1 as found from {schema:cardbox}blob_cards where sha256 = :sha256 limit 1

-- name: checked
update {schema:cardbox}blobs set check_at = null where sha256 = :sha256

-- name: drop_cards
delete from {schema:cardbox}blob_cards where sha256 = :sha256

-- name: drop_blob
delete from {schema:cardbox}blobs where sha256 = :sha256

-- name: check_again
update {schema:cardbox}blobs set check_at = touched_at + :grace_ms
where sha256 in (
    select sha256 from {schema:cardbox}blob_cards where project_id = :project and card_id {in:cards}
)
