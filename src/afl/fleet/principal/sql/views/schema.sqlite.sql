-- The reference's table of log lines, one row each.
create view logstore as
select b.workflow_id, b.workflow_name, b.workflow_instance_id, b.task_name, b.task_instance_id, b.timestamp_ms, b.level,
    j.value as payload, b.position + j.key as position
from fleet_log_blocks b, json_each(b.lines) j;
