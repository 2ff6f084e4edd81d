-- Between dispatch and end a turn moves without a change to any index.

drop index if exists agent_state_head_status;
