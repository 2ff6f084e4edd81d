-- Times are milliseconds on the store's clock. JSON is text.

-- Facts that never change.
create table {schema:cardbox}cards (
    project_id text not null,
    card_id text not null,
    type text not null check (type <> ''),
    author_id text not null check (author_id <> ''),
    role text not null,
    agent_turn_id text not null,
    step_id text not null,
    tool_call_id text not null,
    function_name text not null,
    content {json} not null,
    tool_calls {json} not null,
    metadata {json} not null,
    created_at {bigint} not null,
    primary key (project_id, card_id),
    check (type <> 'tool.result' or tool_call_id <> '')
) {without_rowid};

-- The first result of a tool call is its result.
create unique index cards_result on {schema:cardbox}cards (project_id, tool_call_id) where type = 'tool.result';

create index cards_turn on {schema:cardbox}cards (project_id, agent_turn_id) where agent_turn_id <> '';

-- A box is its rows in box_cards; `length` is how many there are. An output box is written by the turn that holds it.
create table {schema:cardbox}card_boxes (
    project_id text not null,
    box_id text not null,
    kind text not null check (kind in ('profile', 'context', 'output')),
    length {bigint} not null check (length >= 0),
    writer text not null,
    held {bigint} not null check (held in (0, 1)),
    parent_box_id text,
    created_at {bigint} not null,
    primary key (project_id, box_id),
    check (kind = 'output' or (writer = '' and held = 0)),
    check (held = 0 or writer <> '')
) {without_rowid_roomy};

create table {schema:cardbox}box_cards (
    project_id text not null,
    box_id text not null,
    position {bigint} not null check (position >= 0),
    card_id text not null,
    agent_turn_id text not null,
    primary key (project_id, box_id, position),
    unique (project_id, box_id, card_id),
    foreign key (project_id, card_id) references {schema:cardbox}cards (project_id, card_id)
) {without_rowid};

create table {schema:state}agent_state_head (
    project_id text not null,
    agent_id text not null,
    status text not null default 'idle' check (status in ('idle', 'dispatched', 'running', 'suspended')),
    active_agent_turn_id text,
    active_channel_id text,
    turn_epoch {bigint} not null default 0 check (turn_epoch >= 0),
    revision {bigint} not null default 0 check (revision >= 0),
    active_recursion_depth {bigint} not null default 0 check (active_recursion_depth >= 0),
    updated_at {bigint} not null,
    parent_step_id text,
    trace_id text,
    profile_box_id text,
    context_box_id text,
    output_box_id text,
    expecting_correlation_id text,
    waiting_tool_count {bigint} not null default 0 check (waiting_tool_count >= 0),
    resume_deadline {bigint},
    active_inbox_id text,
    owner text not null default '',
    lease_until {bigint} not null default 0,
    takeovers {bigint} not null default 0,
    steps {bigint} not null default 0,
    context_headers {json} not null default '{}',
    primary key (project_id, agent_id),
    check ((status = 'idle') = (active_agent_turn_id is null)),
    check (status = 'idle' or output_box_id is not null),
    check ((status = 'running') = (owner <> '')),
    check (status = 'suspended' or (waiting_tool_count = 0 and resume_deadline is null))
) {without_rowid_roomy};

-- Sweeps find the heads that are not idle by it too. It says nothing of status or time, so between its dispatch and its
-- end a turn moves without a change to any index.
create unique index agent_state_head_turn on {schema:state}agent_state_head (project_id, active_agent_turn_id)
    where active_agent_turn_id is not null;

create table {schema:state}agent_inbox (
    position {identity},
    inbox_id text not null check (inbox_id <> ''),
    project_id text not null,
    agent_id text not null,
    worker_target text not null,
    channel_id text not null default 'public',
    message_type text not null
        check (message_type in ('turn', 'ui_action', 'tool_result', 'timeout', 'stop')),
    enqueue_mode text check (enqueue_mode = 'call'),
    correlation_id text,
    agent_turn_id text not null check (agent_turn_id <> ''),
    turn_epoch {bigint} not null default 0 check (turn_epoch >= 0),
    context_headers {json} not null,
    payload {json} not null,
    status text not null default 'pending'
        check (status in ('queued', 'pending', 'processing', 'deferred', 'consumed', 'error', 'skipped')),
    retry_count {bigint} not null default 0,
    next_retry_at {bigint} not null,
    last_error text,
    defer_reason text,
    claimed_by text not null default '',
    processed_at {bigint},
    archived_at {bigint},
    created_at {bigint} not null,
    unique (project_id, inbox_id),
    check (message_type not in ('turn', 'ui_action') or inbox_id = agent_turn_id),  -- an enqueue is a turn
    check (status <> 'queued' or message_type = 'turn'),
    check ((status = 'processing') = (claimed_by <> '')),
    check ((status in ('consumed', 'error', 'skipped')) = (archived_at is not null))
) {strict};

create unique index agent_inbox_enqueued on {schema:state}agent_inbox (project_id, message_type, correlation_id)
    where correlation_id is not null and message_type in ('turn', 'ui_action', 'stop');

-- A tool call is answered once, by its result or by the clock.
create unique index agent_inbox_reported on {schema:state}agent_inbox (project_id, correlation_id)
    where message_type in ('tool_result', 'timeout');

create index agent_inbox_due on {schema:state}agent_inbox (worker_target, next_retry_at, position)
    where status in ('pending', 'deferred');

create index agent_inbox_live on {schema:state}agent_inbox (project_id, agent_id, position)
    where status in ('queued', 'pending', 'deferred', 'processing');

create table {schema:state}execution_edges (
    edge_id text not null,
    project_id text not null,
    channel_id text not null,
    primitive text not null check (primitive in ('enqueue', 'report', 'join', 'tool_call')),
    edge_phase text not null check (edge_phase in ('request', 'response')),
    source_agent_id text not null,
    source_agent_turn_id text not null,
    source_step_id text not null,
    target_agent_id text not null,
    target_agent_turn_id text not null,
    correlation_id text not null check (correlation_id <> ''),
    enqueue_mode text check (enqueue_mode = 'call'),
    recursion_depth {bigint} not null check (recursion_depth >= 0),
    trace_id text not null,
    parent_step_id text not null,
    metadata {json} not null,
    created_at {bigint} not null,
    primary key (project_id, correlation_id, primitive, edge_phase)
) {without_rowid};

create index execution_edges_source on {schema:state}execution_edges (project_id, source_agent_turn_id)
    where source_agent_turn_id <> '';

create table {schema:state}turn_waiting_tools (
    project_id text not null,
    agent_id text not null,
    agent_turn_id text not null,
    turn_epoch {bigint} not null,
    tool_call_id text not null check (tool_call_id <> ''),
    step_id text not null,
    tool_name text not null,
    wait_status text not null
        check (wait_status in ('waiting', 'received', 'applied', 'expired', 'dropped')),
    tool_result_card_id text,
    deadline {bigint} not null,
    received_at {bigint},
    applied_at {bigint},
    created_at {bigint} not null,
    updated_at {bigint} not null,
    primary key (project_id, agent_id, agent_turn_id, turn_epoch, tool_call_id),
    check (wait_status <> 'applied' or tool_result_card_id is not null)
) {without_rowid};

create index turn_waiting_tools_deadline on {schema:state}turn_waiting_tools (deadline) where wait_status = 'waiting';

-- What outlives a turn; no guard of the protocol.
create table {schema:state}agent_state_pointers (
    project_id text not null,
    agent_id text not null,
    memory_context_box_id text,
    last_output_box_id text,
    updated_at {bigint} not null,
    primary key (project_id, agent_id)
) {without_rowid_roomy};

create table {schema:state}agent_steps (
    project_id text not null,
    agent_id text not null,
    step_id text not null,
    agent_turn_id text not null,
    channel_id text not null,
    parent_step_id text,
    trace_id text,
    status text not null check (
        status in ('started', 'llm_ready', 'llm_done', 'tool_dispatched', 'suspended', 'completed', 'failed')
    ),
    turn_epoch {bigint} not null,
    number {bigint} not null,
    tool_call_ids {json} not null,
    error text,
    metadata {json} not null,
    started_at {bigint} not null,
    ended_at {bigint},
    primary key (project_id, agent_id, step_id)
) {without_rowid};

create index agent_steps_turn on {schema:state}agent_steps (project_id, agent_turn_id, number);

create table {schema:state}identity_edges (
    edge_id text not null primary key,
    project_id text not null,
    channel_id text not null,
    action text not null check (action in ('ensure', 'create', 'derive')),
    source_agent_id text not null,
    target_agent_id text not null,
    trace_id text not null,
    parent_step_id text not null,
    metadata {json} not null,
    created_at {bigint} not null
) {without_rowid};

create index identity_edges_target on {schema:state}identity_edges (project_id, target_agent_id);

create table {schema:state}pmo_batches (
    project_id text not null,
    batch_id text not null,
    parent_agent_id text not null,
    parent_agent_turn_id text not null,
    parent_tool_call_id text not null,
    parent_turn_epoch {bigint} not null,
    parent_channel_id text not null,
    task_count {bigint} not null check (task_count > 0),
    status text not null check (status in ('running', 'success', 'failed', 'timeout', 'partial')),
    deadline_at {bigint},
    metadata {json} not null,
    created_at {bigint} not null,
    updated_at {bigint} not null,
    primary key (project_id, batch_id),
    unique (project_id, parent_tool_call_id)
) {without_rowid};

create index pmo_batches_running on {schema:state}pmo_batches (deadline_at) where status = 'running';

create table {schema:state}pmo_batch_tasks (
    project_id text not null,
    batch_task_id text not null,
    batch_id text not null,
    task_index {bigint} not null,
    agent_id text not null,
    status text not null check (
        status in ('pending', 'dispatched', 'success', 'failed', 'canceled', 'timeout', 'partial')
    ),
    retryable {bigint} not null default 1 check (retryable in (0, 1)),
    next_retry_at {bigint} not null,
    attempt_count {bigint} not null default 0,
    current_agent_turn_id text,
    current_turn_epoch {bigint},
    payload_hash text not null default '',
    profile_box_id text,
    context_box_id text,
    output_box_id text,
    error_box_id text,
    error_detail text,
    metadata {json} not null,
    created_at {bigint} not null,
    updated_at {bigint} not null,
    primary key (project_id, batch_task_id),
    unique (project_id, batch_id, task_index),
    foreign key (project_id, batch_id) references {schema:state}pmo_batches (project_id, batch_id)
) {without_rowid};

create index pmo_batch_tasks_turn on {schema:state}pmo_batch_tasks (project_id, current_agent_turn_id)
    where current_agent_turn_id is not null;

-- What must be published. A turn ends once: it has one task row, and its deliverable is in its output box.
create table {schema:state}outbox (
    position {identity},
    out_id text not null,
    project_id text not null,
    kind text not null check (kind in ('task', 'cmd')),
    subject text not null,
    headers {json} not null,
    payload {json} not null,
    agent_id text not null,
    agent_turn_id text not null,
    status text check (status in ('success', 'failed', 'canceled', 'timeout', 'partial')),
    output_box_id text,
    deliverable_card_id text,
    created_at {bigint} not null,
    sequence {bigint},
    published_at {bigint},
    check (
        kind <> 'task'
        or (status is not null and output_box_id is not null and deliverable_card_id is not null)
    ),
    check ((sequence is null) = (published_at is null)),
    foreign key (project_id, output_box_id, deliverable_card_id)
        references {schema:cardbox}box_cards (project_id, box_id, card_id)
) {strict};

create unique index outbox_task on {schema:state}outbox (project_id, agent_turn_id) where kind = 'task';

create index outbox_unpublished on {schema:state}outbox (position) where sequence is null;

create index outbox_subject on {schema:state}outbox (subject, sequence) where sequence is not null;

create index outbox_sequence on {schema:state}outbox (sequence) where sequence is not null;

-- One relay at a time.
create table {schema:state}relay (
    name text not null primary key,
    owner text not null,
    epoch {bigint} not null,
    lease_until {bigint} not null
) {without_rowid_roomy};

-- How far a consumer without a server of its own has read.
create table {schema:state}bus_cursors (
    consumer text not null primary key,
    sequence {bigint} not null,
    attempts {bigint} not null,
    owner text not null,
    lease_until {bigint} not null
) {without_rowid_roomy};

create table {schema:resource}project_agents (
    project_id text not null,
    agent_id text not null,
    profile_box_id text not null,
    worker_target text not null check (worker_target <> ''),
    tags {json} not null,
    display_name text not null,
    owner_agent_id text,
    status text not null check (status in ('active', 'inactive')),
    metadata {json} not null,
    created_at {bigint} not null,
    last_seen_at {bigint},
    primary key (project_id, agent_id)
) {without_rowid};

create table {schema:resource}tools (
    project_id text not null,
    tool_name text not null,
    description text not null,
    parameters {json} not null,
    target_subject text not null,
    after_execution text not null check (after_execution in ('suspend', 'terminate')),
    options {json} not null,
    primary key (project_id, tool_name)
) {without_rowid};

create table {schema:resource}profiles (
    project_id text not null,
    profile_box_id text not null,
    name text not null,
    worker_target text not null,
    profile {json} not null,
    updated_at {bigint} not null,
    primary key (project_id, profile_box_id)
) {without_rowid};

create unique index profiles_name on {schema:resource}profiles (project_id, lower(name));
