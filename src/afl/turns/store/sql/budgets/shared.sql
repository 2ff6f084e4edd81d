-- name: open_account
insert into {schema:state}turn_budgets (project_id, account, entry) values (:project, :account, '')
on conflict (project_id, account, entry) do nothing

-- name: lock_account
select 1 as found from {schema:state}turn_budgets
where project_id = :project and account = :account and entry = '' {for_update}

-- name: end_reservations
delete from {schema:state}turn_budgets
where project_id = :project and account = :account and entry <> '' and (until < {now} or entry = :entry)

-- name: used
select coalesce(sum(case when entry = '' then usd else 0 end), 0) as spent_usd,
    coalesce(sum(case when entry = '' then tokens else 0 end), 0) as spent_tokens,
    coalesce(sum(usd), 0) as usd, coalesce(sum(tokens), 0) as tokens, coalesce(sum(steps), 0) as steps,
    coalesce(sum(ms), 0) as ms
from {schema:state}turn_budgets where project_id = :project and account = :account

-- name: reserve
insert into {schema:state}turn_budgets (project_id, account, entry, usd, tokens, steps, until)
values (:project, :account, :entry, :usd, :tokens, :steps, {now} + :lease_ms)

-- name: spend
update {schema:state}turn_budgets
set usd = usd + :usd, tokens = tokens + :tokens, steps = steps + :steps, ms = ms + :ms
where project_id = :project and account = :account and entry = ''

-- name: end_reservation
delete from {schema:state}turn_budgets where project_id = :project and account = :account and entry = :entry

-- Turns that ended a while ago, and days that are past, by the date at the end of the account.

-- name: prune_turns
delete from {schema:state}turn_budgets where (project_id, account) in (
    select b.project_id, b.account from {schema:state}turn_budgets as b
    join {schema:state}outbox as o
        on o.project_id = b.project_id and o.kind = 'task' and o.agent_turn_id = substr(b.account, 6)
    where b.account >= 'turn:' and b.account < 'turn;' and b.entry = '' and o.created_at < {now} - :older_ms
    limit :limit
)

-- name: prune_days
delete from {schema:state}turn_budgets where (project_id, account) in (
    select project_id, account from {schema:state}turn_budgets
    where account >= 'day:' and account < 'day;' and entry = '' and substr(account, length(account) - 9) < :first
    limit :limit
)

-- name: spent
select account, usd, tokens, steps, ms from {schema:state}turn_budgets
where project_id = :project and account {in:accounts} and entry = '' order by account
