-- Files that are too large for a card, by the SHA-256 of their bytes, which are in the blob store. `touched_at` is when one
-- was last given. At `check_at` the cleaning looks whether a card still has it; null: nothing has changed since it looked.
create table {schema:cardbox}blobs (
    sha256 text primary key,
    size {bigint} not null check (size >= 0),
    touched_at {bigint} not null,
    check_at {bigint}
) {without_rowid_roomy};
create index blobs_to_check on {schema:cardbox}blobs (check_at) where check_at is not null;
create index blobs_by_age on {schema:cardbox}blobs (touched_at);

-- Which cards have which files. A row is written before its card is, so its card may be missing.
create table {schema:cardbox}blob_cards (
    sha256 text not null,
    project_id text not null,
    card_id text not null,
    primary key (sha256, project_id, card_id)
) {without_rowid};
create index blob_cards_by_card on {schema:cardbox}blob_cards (project_id, card_id);
