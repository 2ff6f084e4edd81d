-- A transition is one call and so one round trip. What it does is described in JSON, the same description that
-- heads/move.py carries out statement by statement on SQLite; one suite drives both.
-- The names carry a number: a changed function gets a new one, so that old processes keep theirs during an upgrade.

create function state.now_3() returns bigint language sql volatile as $body$
    select (extract(epoch from clock_timestamp()) * 1000)::bigint
$body$;

create function cardbox.save_cards_3(p_project text, p_cards jsonb) returns void language plpgsql as $body$
begin
    insert into cardbox.cards (
        project_id, card_id, type, author_id, role, agent_turn_id, step_id, tool_call_id, function_name, content,
        tool_calls, metadata, created_at
    )
    select p_project, c ->> 'card_id', c ->> 'type', c ->> 'author_id', c ->> 'role', c ->> 'turn', c ->> 'step',
        c ->> 'call', c ->> 'function', c ->> 'content', c ->> 'tool_calls', c ->> 'metadata', state.now_3()
    from jsonb_array_elements(p_cards) as c;
end
$body$;

-- A box for reading with new cards in it, and an empty one for output, held by the turn that is to write it.
create function cardbox.open_boxes_3(p_project text, p_context text, p_output text, p_cards jsonb, p_writer text)
returns void language plpgsql as $body$
declare
    at bigint := state.now_3();
begin
    perform cardbox.save_cards_3(p_project, p_cards);
    insert into cardbox.card_boxes (project_id, box_id, kind, length, writer, held, created_at)
    values (p_project, p_context, 'context', jsonb_array_length(p_cards), '', 0, at),
        (p_project, p_output, 'output', 0, p_writer, (p_writer <> '')::int, at);
    insert into cardbox.box_cards (project_id, box_id, position, card_id, agent_turn_id)
    select p_project, p_context, ordinality - 1, c ->> 'card_id', ''
    from jsonb_array_elements(p_cards) with ordinality as e(c, ordinality);
end
$body$;

create function state.add_edges_3(p_edges jsonb) returns void language plpgsql as $body$
begin
    insert into state.execution_edges (
        edge_id, project_id, channel_id, primitive, edge_phase, source_agent_id, source_agent_turn_id, source_step_id,
        target_agent_id, target_agent_turn_id, correlation_id, enqueue_mode, recursion_depth, trace_id, parent_step_id,
        metadata, created_at
    )
    select e ->> 'edge', e ->> 'project', e ->> 'channel', e ->> 'primitive', e ->> 'phase', e ->> 'source',
        e ->> 'source_turn', e ->> 'source_step', e ->> 'target', e ->> 'target_turn', e ->> 'correlation',
        e ->> 'mode', (e ->> 'depth')::bigint, e ->> 'trace', e ->> 'parent_step', e ->> 'metadata', state.now_3()
    from jsonb_array_elements(p_edges) as e;
end
$body$;

create function state.put_inbox_3(r jsonb, p_status text, p_epoch bigint) returns boolean language plpgsql as $body$
declare
    at bigint := state.now_3();
begin
    insert into state.agent_inbox (
        inbox_id, project_id, agent_id, worker_target, channel_id, message_type, enqueue_mode, correlation_id,
        agent_turn_id, turn_epoch, context_headers, payload, status, next_retry_at, created_at, processed_at, archived_at
    ) values (
        r ->> 'inbox', r ->> 'project', r ->> 'agent', r ->> 'target', r ->> 'channel', r ->> 'type', r ->> 'mode',
        r ->> 'correlation', r ->> 'turn', p_epoch, r ->> 'headers', r ->> 'payload', p_status, at, at,
        case when p_status = 'consumed' then at end, case when p_status = 'consumed' then at end
    ) on conflict do nothing;
    return found;
end
$body$;

-- The epoch of an agent's head, which is locked, if it is idle; -1 when a message waits for it although it is, null when
-- it has a turn. One number: a function that returns several takes the server longer than what it does here.
create function state.idle_epoch_3(p_project text, p_agent text) returns bigint language plpgsql as $body$
declare
    found_status text;
    epoch bigint;
begin
    select h.status, h.turn_epoch into found_status, epoch from state.agent_state_head as h
    where h.project_id = p_project and h.agent_id = p_agent for update;
    if not found then
        insert into state.agent_state_head (project_id, agent_id, updated_at)
        values (p_project, p_agent, state.now_3()) on conflict do nothing;
        select h.status, h.turn_epoch into found_status, epoch from state.agent_state_head as h
        where h.project_id = p_project and h.agent_id = p_agent for update;
    end if;
    if found_status <> 'idle' then
        return null;
    end if;
    perform 1 from state.agent_inbox as i
    where i.project_id = p_project and i.agent_id = p_agent and i.status = 'queued' limit 1;
    return case when found then -1 else epoch end;
end
$body$;

-- An idle head that is locked gets the turn of a message; its output box is the one it is to write, or a copy of that.
create function state.lease_3(m state.agent_inbox, p_held boolean) returns jsonb language plpgsql as $body$
declare
    about jsonb := m.payload::jsonb;
    headers jsonb := m.context_headers::jsonb;
    box text := about ->> 'output_box_id';
    fork text;
    leased bigint;
    at bigint := state.now_3();
begin
    if not p_held then
        update cardbox.card_boxes set writer = m.agent_turn_id, held = 1
        where project_id = m.project_id and box_id = box and kind = 'output'
            and (held = 0 or writer = m.agent_turn_id);
        if not found then
            fork := 'box_' || replace(gen_random_uuid()::text, '-', '');
            insert into cardbox.card_boxes (project_id, box_id, kind, length, writer, held, parent_box_id, created_at)
            select project_id, fork, kind, length, m.agent_turn_id, 1, box_id, at
            from cardbox.card_boxes where project_id = m.project_id and box_id = box and kind = 'output';
            insert into cardbox.box_cards (project_id, box_id, position, card_id, agent_turn_id)
            select r.project_id, fork, r.position, r.card_id, m.agent_turn_id
            from cardbox.box_cards as r
            where r.project_id = m.project_id and r.box_id = box and r.position < (
                select length from cardbox.card_boxes where project_id = m.project_id and box_id = fork
            );
            box := fork;
        end if;
    end if;
    update state.agent_state_head set
        status = 'dispatched', active_agent_turn_id = m.agent_turn_id, active_channel_id = m.channel_id,
        turn_epoch = turn_epoch + 1, revision = revision + 1,
        active_recursion_depth = coalesce((headers ->> 'CG-Recursion-Depth')::bigint, 0), updated_at = at,
        parent_step_id = headers ->> 'CG-Parent-Step-Id', trace_id = split_part(headers ->> 'traceparent', '-', 2),
        profile_box_id = about ->> 'profile_box_id', context_box_id = about ->> 'context_box_id',
        output_box_id = box, expecting_correlation_id = null, active_inbox_id = m.inbox_id, takeovers = 0, steps = 0,
        context_headers = m.context_headers
    where project_id = m.project_id and agent_id = m.agent_id and status = 'idle'
    returning turn_epoch into strict leased;
    return jsonb_build_object(
        'inbox_id', m.inbox_id, 'agent_turn_id', m.agent_turn_id, 'worker_target', m.worker_target,
        'channel_id', m.channel_id, 'context_headers', m.context_headers, 'turn_epoch', leased, 'output_box_id', box
    );
end
$body$;

-- The head is locked by the caller, and idle.
create function state.dispatch_next_3(p_project text, p_agent text) returns jsonb language plpgsql as $body$
declare
    m state.agent_inbox;
    leased jsonb;
begin
    select * into m from state.agent_inbox
    where project_id = p_project and agent_id = p_agent and status = 'queued'
    order by position limit 1 for update;
    if not found then
        return null;
    end if;
    leased := state.lease_3(m, false);
    update state.agent_inbox set
        status = 'pending', turn_epoch = (leased ->> 'turn_epoch')::bigint, next_retry_at = state.now_3()
    where position = m.position;
    return leased;
end
$body$;

create function state.open_step_3(h state.agent_state_head, p_step text) returns void language plpgsql as $body$
begin
    insert into state.agent_steps (
        project_id, agent_id, step_id, agent_turn_id, channel_id, parent_step_id, trace_id, status, turn_epoch,
        number, tool_call_ids, metadata, started_at
    ) values (
        h.project_id, h.agent_id, p_step, h.active_agent_turn_id, h.active_channel_id, h.parent_step_id, h.trace_id,
        'started', h.turn_epoch, h.steps, '[]', '{}', h.updated_at
    );
end
$body$;

-- A dispatched turn is a worker's own, with its first step.
create function state.enter_3(p_project text, p_agent text, p_owner text, p_lease_ms bigint, p_step text)
returns json language plpgsql as $body$
declare
    h state.agent_state_head;
    at bigint := state.now_3();
begin
    update state.agent_state_head set
        status = 'running', owner = p_owner, lease_until = at + p_lease_ms, steps = steps + 1,
        revision = revision + 1, updated_at = at
    where project_id = p_project and agent_id = p_agent returning * into h;
    perform state.open_step_3(h, p_step);
    return row_to_json(h);
end
$body$;

-- The first message of an idle agent is its turn at once: it is never queued, so it is written once.
create function state.begin_turn_3(r jsonb, p_edges jsonb, p_epoch bigint, p_held boolean, p_status text) returns text
language plpgsql as $body$
declare
    m state.agent_inbox;
begin
    if not state.put_inbox_3(r, p_status, p_epoch) then
        return '{"known": true}';
    end if;
    perform state.add_edges_3(p_edges);
    m.inbox_id := r ->> 'inbox';
    m.project_id := r ->> 'project';
    m.agent_id := r ->> 'agent';
    m.worker_target := r ->> 'target';
    m.channel_id := r ->> 'channel';
    m.agent_turn_id := r ->> 'turn';
    m.context_headers := r ->> 'headers';
    m.payload := r ->> 'payload';
    return jsonb_build_object('next', state.lease_3(m, p_held))::text;
end
$body$;

-- A turn into the queue, and out of it when its agent is idle: {"known"} when there is one of that correlation.
create function state.enqueue_3(p_message jsonb, p_edges jsonb) returns text language plpgsql as $body$
declare
    project text := p_message ->> 'project';
    agent text := p_message ->> 'agent';
    epoch bigint := state.idle_epoch_3(project, agent);
begin
    if epoch >= 0 then
        return state.begin_turn_3(p_message, p_edges, epoch + 1, false, 'pending');
    end if;
    if not state.put_inbox_3(p_message, 'queued', 0) then
        return '{"known": true}';
    end if;
    perform state.add_edges_3(p_edges);
    if epoch = -1 then
        return jsonb_build_object('next', state.dispatch_next_3(project, agent))::text;
    end if;
    return '{}';
end
$body$;

-- Cards, boxes and a turn that reads them; {"refused"}, and nothing written, when nobody serves the agent. A worker that
-- has a hand free where this is called (p_owner) has the turn from the first moment: nobody need claim it.
create function state.send_3(
    p_message jsonb, p_edges jsonb, p_cards jsonb, p_context text, p_output text,
    p_targets text[], p_owner text, p_lease_ms bigint, p_step text
) returns text language plpgsql as $body$
declare
    project text := p_message ->> 'project';
    agent text := p_message ->> 'agent';
    to_whom resource.project_agents;
    message jsonb;
    epoch bigint;
begin
    select * into to_whom from resource.project_agents where project_id = project and agent_id = agent;
    if to_whom.status is distinct from 'active' then
        return jsonb_build_object('refused', coalesce(to_whom.status, ''))::text;
    end if;
    message := p_message || jsonb_build_object('target', to_whom.worker_target, 'payload', (
        (p_message ->> 'payload')::jsonb || jsonb_build_object('profile_box_id', to_whom.profile_box_id)
    )::text);
    epoch := state.idle_epoch_3(project, agent);
    if epoch is null or epoch < 0 then
        perform cardbox.open_boxes_3(project, p_context, p_output, p_cards, '');
        return state.enqueue_3(message, p_edges);
    end if;
    perform cardbox.open_boxes_3(project, p_context, p_output, p_cards, p_message ->> 'turn');
    if to_whom.worker_target = any(p_targets) then
        perform state.begin_turn_3(message, p_edges, epoch + 1, true, 'consumed');
        return json_build_object('begun', state.enter_3(project, agent, p_owner, p_lease_ms, p_step))::text;
    end if;
    return state.begin_turn_3(message, p_edges, epoch + 1, true, 'pending');
end
$body$;

-- Due messages, oldest first. A turn among them is entered at once, with its step, and comes with the cards of its
-- boxes; whoever has its head in hand just now leaves it to a second look. Everything else is claimed.
create function state.begin_3(p_targets text[], p_owner text, p_limit bigint, p_lease_ms bigint, p_step text)
returns text language plpgsql as $body$
declare
    m state.agent_inbox;
    h state.agent_state_head;
    target text;
    read json;
    entered json;
    begun json[] := '{}';
    taken bigint := 0;
    at bigint := state.now_3();
begin
    foreach target in array p_targets loop
        for m in
            select * from state.agent_inbox
            where worker_target = target and status in ('pending', 'deferred') and next_retry_at <= at
            order by next_retry_at, position limit p_limit - taken for update skip locked
        loop
            taken := taken + 1;
            h := null;
            read := null;
            if m.message_type in ('turn', 'ui_action') then
                select * into h from state.agent_state_head
                where project_id = m.project_id and agent_id = m.agent_id and status = 'dispatched'
                    and active_agent_turn_id = m.agent_turn_id and turn_epoch = m.turn_epoch
                for update skip locked;
            end if;
            if h.agent_id is null then
                update state.agent_inbox set status = 'processing', claimed_by = p_owner, processed_at = at
                where position = m.position returning * into m;
                begun := begun || json_build_object('row', row_to_json(m));
                continue;
            end if;
            entered := state.enter_3(h.project_id, h.agent_id, p_owner, p_lease_ms, p_step || taken);
            update state.agent_inbox set status = 'consumed', processed_at = at, archived_at = at
            where position = m.position;
            select json_agg(json_build_object(
                'box_id', b.box_id, 'card_id', c.card_id, 'type', c.type, 'author_id', c.author_id, 'role', c.role,
                'agent_turn_id', c.agent_turn_id, 'step_id', c.step_id, 'tool_call_id', c.tool_call_id,
                'function_name', c.function_name, 'content', c.content, 'tool_calls', c.tool_calls,
                'metadata', c.metadata, 'created_at', c.created_at
            ) order by b.box_id, b.position) into read
            from cardbox.box_cards as b
            -- Row by row: a plan made while the tables were small would read every card of the project for good.
            cross join lateral (
                select * from cardbox.cards as one
                where one.project_id = b.project_id and one.card_id = b.card_id offset 0
            ) as c
            where b.project_id = h.project_id and b.box_id in (h.context_box_id, h.output_box_id);
            begun := begun || json_build_object('head', entered, 'step', p_step || taken, 'cards', read);
        end loop;
    end loop;
    return array_to_json(begun)::text;
end
$body$;

-- A report into the inbox: false when there is one for that call already.
create function state.report_3(p_message jsonb, p_edges jsonb, p_card text) returns boolean language plpgsql as $body$
declare
    at bigint := state.now_3();
begin
    if not state.put_inbox_3(p_message, p_message ->> 'status', (p_message ->> 'epoch')::bigint) then
        return false;
    end if;
    perform state.add_edges_3(p_edges);
    update state.turn_waiting_tools set
        wait_status = 'received', tool_result_card_id = p_card, received_at = at, updated_at = at
    where project_id = p_message ->> 'project' and agent_id = p_message ->> 'agent'
        and agent_turn_id = p_message ->> 'turn' and turn_epoch = (p_message ->> 'epoch')::bigint
        and tool_call_id = p_message ->> 'correlation' and (wait_status = 'waiting') is true;
    return true;
end
$body$;

-- One transition of a head; null when the fence does not hold. The fence comes first, the effects after it.
create function state.move_3(p jsonb) returns text language plpgsql as $body$
declare
    kind text := p ->> 'kind';
    project text := p ->> 'project';
    agent text := p ->> 'agent';
    turn text := p ->> 'turn';
    gate_epoch bigint := (p ->> 'epoch')::bigint;
    gate_revision bigint := (p ->> 'revision')::bigint;
    at bigint := state.now_3();
    h state.agent_state_head;
    s jsonb;
    grown bigint;
    places jsonb;
    following jsonb;
begin
    if kind = 'apply' then
        update state.agent_state_head set
            waiting_tool_count = waiting_tool_count - 1,
            resume_deadline = (
                select min(w.deadline) from state.turn_waiting_tools as w
                where w.project_id = project and w.agent_id = agent and w.agent_turn_id = turn
                    and w.turn_epoch = gate_epoch and w.wait_status in ('waiting', 'received')
                    and w.tool_call_id <> p ->> 'call'
            ),
            revision = revision + 1, updated_at = at
        where project_id = project and agent_id = agent and active_agent_turn_id = turn and turn_epoch = gate_epoch
            and revision = gate_revision and (p -> 'from') ? status
            and exists (
                select 1 from state.turn_waiting_tools as w
                where w.project_id = project and w.agent_id = agent and w.agent_turn_id = turn
                    and w.turn_epoch = gate_epoch and w.tool_call_id = p ->> 'call'
                    and w.wait_status in ('waiting', 'received')
            )
        returning * into h;
    elsif kind = 'go_on' then
        update state.agent_state_head set
            steps = steps + (p ->> 'steps')::bigint,
            lease_until = greatest(lease_until, at + (p ->> 'lease_ms')::bigint), revision = revision + 1,
            updated_at = at
        where project_id = project and agent_id = agent and active_agent_turn_id = turn and turn_epoch = gate_epoch
            and revision = gate_revision and (p -> 'from') ? status
        returning * into h;
    elsif kind = 'suspend' then
        update state.agent_state_head set
            status = 'suspended', owner = '', lease_until = 0, waiting_tool_count = (p ->> 'count')::bigint,
            resume_deadline = at + (p ->> 'deadline_ms')::bigint,
            expecting_correlation_id = case when context_box_id is null then expecting_correlation_id end,
            revision = revision + 1, updated_at = at
        where project_id = project and agent_id = agent and active_agent_turn_id = turn and turn_epoch = gate_epoch
            and revision = gate_revision and (p -> 'from') ? status
        returning * into h;
    elsif kind = 'end_turn' then
        update state.agent_state_head set
            status = 'idle', active_agent_turn_id = null, active_channel_id = null,
            turn_epoch = turn_epoch + (p ->> 'bump')::bigint, active_recursion_depth = 0, parent_step_id = null,
            trace_id = null, context_box_id = null, output_box_id = null, expecting_correlation_id = null,
            waiting_tool_count = 0, resume_deadline = null, active_inbox_id = null, owner = '', lease_until = 0,
            takeovers = 0, steps = 0, context_headers = '{}', revision = revision + 1, updated_at = at
        where project_id = project and agent_id = agent and active_agent_turn_id = turn and turn_epoch = gate_epoch
            and revision = gate_revision and (p -> 'from') ? status
        returning * into h;
    else
        update state.agent_state_head set
            status = 'running', owner = p ->> 'owner', lease_until = at + (p ->> 'lease_ms')::bigint,
            steps = steps + 1, resume_deadline = null, revision = revision + 1, updated_at = at
        where project_id = project and agent_id = agent and active_agent_turn_id = turn and turn_epoch = gate_epoch
            and revision = gate_revision and (p -> 'from') ? status
            and (kind = 'enter' or waiting_tool_count = 0)
        returning * into h;
    end if;
    if not found then
        return null;
    end if;
    if kind = 'apply' then
        update state.turn_waiting_tools set
            wait_status = 'applied', tool_result_card_id = p ->> 'card', received_at = coalesce(received_at, at),
            applied_at = at, updated_at = at
        where project_id = project and agent_id = agent and agent_turn_id = turn and turn_epoch = gate_epoch
            and tool_call_id = p ->> 'call';
    end if;
    if p ? 'cards' then
        perform cardbox.save_cards_3(project, p -> 'cards');
    end if;
    if p ? 'put' then
        update cardbox.card_boxes set
            length = length + jsonb_array_length(p -> 'put'), held = case when p ? 'last' then 0 else held end
        where project_id = project and box_id = p ->> 'box' and writer = turn and held = 1
        returning length - jsonb_array_length(p -> 'put') into strict grown;
        insert into cardbox.box_cards (project_id, box_id, position, card_id, agent_turn_id)
        select project, p ->> 'box', grown + ordinality - 1, card, turn
        from jsonb_array_elements_text(p -> 'put') with ordinality as e(card, ordinality);
    end if;
    if p ? 'edges' then
        perform state.add_edges_3(p -> 'edges');
    end if;
    if p ? 'waits' then
        insert into state.turn_waiting_tools (
            project_id, agent_id, agent_turn_id, turn_epoch, tool_call_id, step_id, tool_name, wait_status, deadline,
            created_at, updated_at
        )
        select project, agent, turn, gate_epoch, w ->> 'call', w ->> 'step', w ->> 'tool', 'waiting',
            at + (w ->> 'deadline_ms')::bigint, at, at
        from jsonb_array_elements(p -> 'waits') as w;
    end if;
    if p ? 'forget' then
        delete from state.turn_waiting_tools
        where project_id = project and agent_id = agent and agent_turn_id = turn;
    end if;
    if p ? 'point' then
        insert into state.agent_state_pointers (project_id, agent_id, last_output_box_id, updated_at)
        values (project, agent, p ->> 'box', at)
        on conflict (project_id, agent_id) do update set
            last_output_box_id = excluded.last_output_box_id, updated_at = excluded.updated_at;
    end if;
    if p ? 'outbox' then
        -- Where they are, and what is to be published before them: then the relay need not look for them.
        with added as (
            insert into state.outbox (
                out_id, project_id, kind, subject, headers, payload, agent_id, agent_turn_id, status, output_box_id,
                deliverable_card_id, created_at
            )
            select o ->> 'out', o ->> 'project', o ->> 'kind', o ->> 'subject', o ->> 'headers', o ->> 'payload',
                o ->> 'agent', o ->> 'turn', o ->> 'status', o ->> 'box', o ->> 'card', at
            from jsonb_array_elements(p -> 'outbox') as o
            returning position, out_id, subject
        )
        select jsonb_object_agg(a.out_id, jsonb_build_object('position', a.position, 'at', at, 'before', (
            select max(o.position) from state.outbox as o
            where o.sequence is null and o.subject = a.subject and o.position < a.position
        ))) into places from added as a;
    end if;
    if p ? 'close' then
        s := p -> 'close';
        update state.agent_steps set
            status = s ->> 'status', error = s ->> 'error',
            metadata = case when s ->> 'metadata' = '{}' then metadata else s ->> 'metadata' end,
            tool_call_ids = case when s ->> 'calls' = '[]' then tool_call_ids else s ->> 'calls' end,
            ended_at = case when s ->> 'ended' = '1' then at end
        where project_id = project and agent_id = agent and agent_turn_id = turn and step_id = s ->> 'step';
    end if;
    if p ? 'steps_error' then
        update state.agent_steps set status = 'failed', error = p ->> 'steps_error', ended_at = at
        where project_id = project and agent_turn_id = turn and ended_at is null;
    end if;
    if p ? 'open' then
        perform state.open_step_3(h, p ->> 'open');
    end if;
    if p ? 'consume' then
        update state.agent_inbox set status = 'consumed', claimed_by = '', archived_at = at
        where project_id = project and inbox_id = p ->> 'consume' and status not in ('consumed', 'error', 'skipped');
    end if;
    if p ? 'skip' then
        update state.agent_inbox set status = 'skipped', claimed_by = '', archived_at = at, last_error = p ->> 'why'
        where project_id = project and inbox_id = p ->> 'skip' and status not in ('consumed', 'error', 'skipped');
    end if;
    if kind = 'end_turn' then
        following := state.dispatch_next_3(project, agent);
    end if;
    return jsonb_build_object('head', to_jsonb(h), 'next', following, 'outbox', places)::text;
end
$body$;
