-- name: queued
select workflow_id from afl_search_queue limit :limit {skip_locked}
-- name: unqueue
delete from afl_search_queue where workflow_id {in:ids}
-- name: texts
select r.workflow_id, r.workflow_name, r.name, r.tags, r.reason, coalesce(substr(r.error, 1, 20000), '') as error,
    substr(r.outputs, 1, 20000) as outputs,
    coalesce((select substr(i.inputs, 1, 20000) from afl_inputs i where i.workflow_id = r.workflow_id {plain}), '') as inputs
from afl_runs r where r.workflow_id {in:ids}
-- name: any_queued
select 1 as found from afl_search_queue limit 1
-- name: named
select workflow_id from afl_runs where workflow_id >= :prefix and workflow_id < :beyond
order by workflow_id desc limit :limit
