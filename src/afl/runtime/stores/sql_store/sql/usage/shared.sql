-- name: insert_usage
insert into afl_usage (
    workflow_id, step_id, task_id, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost, time
) values (
    :workflow_id, :step_id, :task_id, :model, :input_tokens, :output_tokens, :cache_read_tokens, :cache_write_tokens,
    :cost, :time
)
-- name: add_cost
insert into afl_costs (workflow_id, cost) values (:workflow_id, :cost)
on conflict (workflow_id) do update set cost = afl_costs.cost + excluded.cost
-- name: get_usage
select * from afl_usage where workflow_id = :workflow_id order by seq

-- name: set_budget
insert into afl_budgets (workflow_id, usd, tokens) values (:workflow_id, :usd, :tokens)
on conflict (workflow_id) do update set usd = excluded.usd, tokens = excluded.tokens
-- name: has_budget
select 1 as found from afl_budgets where workflow_id = :workflow_id
-- name: lock_budget
select 1 as found from afl_budgets where workflow_id = :workflow_id {for_update}
-- name: get_budget
select b.usd, b.tokens, u.spent_usd, u.spent_tokens, r.reserved_usd, r.reserved_tokens
from afl_budgets b,
    (
        select coalesce(sum(cost), 0) as spent_usd,
            coalesce(sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens), 0) as spent_tokens
        from afl_usage where workflow_id = :workflow_id
    ) u,
    (
        select coalesce(sum(usd), 0) as reserved_usd, coalesce(sum(tokens), 0) as reserved_tokens
        from afl_reservations where workflow_id = :workflow_id and lease_until >= {now}
    ) r
where b.workflow_id = :workflow_id
-- name: remove_budget
delete from afl_budgets where workflow_id = :workflow_id

-- name: insert_reservation
insert into afl_reservations (id, workflow_id, owner, usd, tokens, lease_until)
values (:id, :workflow_id, :owner, :usd, :tokens, {now} + :lease_ms)
-- name: end_reservation
delete from afl_reservations where id = :id
-- name: end_old_reservations
delete from afl_reservations where workflow_id = :workflow_id and lease_until < {now}
-- name: reservation_owners
select distinct owner from afl_reservations where workflow_id = :workflow_id
-- name: end_reservations_of
delete from afl_reservations where workflow_id = :workflow_id and owner {in:owners}

-- name: forget_usage
delete from afl_usage where workflow_id {in:ids}
-- name: forget_costs
delete from afl_costs where workflow_id {in:ids}
-- name: forget_budgets
delete from afl_budgets where workflow_id {in:ids}
-- name: forget_reservations
delete from afl_reservations where workflow_id {in:ids}
