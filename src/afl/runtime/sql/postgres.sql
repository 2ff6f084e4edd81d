-- name: commit_changes
select afl_commit_1(
    :run::jsonb, :new, :lease_ms, :over, :steps::jsonb, :old_steps::jsonb, :consumed, :events::jsonb, :tasks::jsonb,
    :closed::jsonb, :logs::jsonb
) as held
