-- name: insert_usage
insert into afl_usage (
    workflow_id, step_id, task_id, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost, time,
    exchange
) values (
    :workflow_id, :step_id, :task_id, :model, :input_tokens, :output_tokens, :cache_read_tokens, :cache_write_tokens,
    :cost, :time, :exchange
)
-- name: add_cost
insert into afl_costs (workflow_id, cost) values (:workflow_id, :cost)
on conflict (workflow_id) do update set cost = afl_costs.cost + excluded.cost
-- name: get_usage
select workflow_id, step_id, task_id, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
    cost, time from afl_usage where workflow_id = :workflow_id order by seq
-- name: get_calls
select * from afl_usage where workflow_id = :workflow_id and step_id = :step_id order by seq limit :limit
-- name: sum_usage
select u.time / 86400000 as day, u.model, coalesce(r.workflow_name, '') as workflow, count(*) as calls,
    sum(u.input_tokens + u.output_tokens + u.cache_read_tokens + u.cache_write_tokens) as tokens,
    coalesce(sum(u.cost), 0) as cost, count(*) - count(u.cost) as unpriced
from afl_usage u left join afl_runs r on r.workflow_id = u.workflow_id
where u.time >= :since group by 1, 2, 3 order by 1, 2, 3
-- name: sum_usage_by_tag
select t.tag, coalesce(sum(u.cost), 0) as cost
from afl_usage u join afl_tags t on t.workflow_id = u.workflow_id
where u.time >= :since group by t.tag order by 2 desc, 1 limit :limit
-- name: forget_exchanges
update afl_usage set exchange = null where seq in (
    select seq from afl_usage where exchange is not null and time < :before order by time limit :limit
) returning seq

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
