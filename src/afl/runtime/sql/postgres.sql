-- name: commit_changes
select afl_commit_1(
    :run::json, :new, :lease_ms, :over, :steps::json, :old_steps::json, :consumed, :events::json, :tasks::json,
    :closed::json, :logs::json
) as held
