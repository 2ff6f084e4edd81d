-- name: lock_key
select pg_advisory_xact_lock(hashtextextended(:key, 7))
-- name: commit_changes
select afl_commit_1(
    :run::jsonb, :new, :lease_ms, :over, :steps::jsonb, :old_steps::jsonb, :consumed, :events::jsonb, :tasks::jsonb,
    :policies::jsonb, :closed::jsonb, :held, :logs::jsonb, :topics
) as held
