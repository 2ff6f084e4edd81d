-- The reference's table of log lines, one row each.
create view logstore as
select b.workflow_id, b.workflow_name, b.workflow_instance_id, b.task_name, b.task_instance_id, b.timestamp_ms, b.level,
    j.payload, b.position + j.ordinal - 1 as position
from fleet_log_blocks b cross join lateral json_array_elements_text(b.lines::json) with ordinality as j(payload, ordinal);
