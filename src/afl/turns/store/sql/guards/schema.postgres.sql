-- What no statement may do.

-- The server reads the stored text of a CHECK, and of a trigger's WHEN, anew for every statement that writes a row; what a
-- function says it reads once per session. So the checks of the tables that every turn writes are kept by functions, made
-- here of the checks themselves: they took a third of the server's time for a turn.
do $body$
declare
    written regclass;
    columns text;
    conditions text;
    broken text;
    drops text;
begin
    foreach written in array array[
        'cardbox.cards', 'cardbox.card_boxes', 'state.agent_state_head', 'state.agent_inbox', 'state.execution_edges',
        'state.turn_waiting_tools', 'state.outbox'
    ]::regclass[] loop
        -- Columns become those of the new row. No word in a condition's quotes is the name of a column.
        select format('\m(%s)\M', string_agg(distinct a.attname, '|')) into columns
        from pg_constraint as c join pg_attribute as a on a.attrelid = written and a.attnum = any(c.conkey)
        where c.conrelid = written and c.contype = 'c';
        select string_agg(c.condition, ' and ' order by c.conname),
            string_agg(format('when not %s then %L', c.condition, c.conname), ' ' order by c.conname),
            string_agg(format('drop constraint %I', c.conname), ', ')
        into conditions, broken, drops
        from (
            select conname, regexp_replace(pg_get_expr(conbin, written), columns, 'new.\1', 'g') as condition
            from pg_constraint where conrelid = written and contype = 'c'
        ) as c;
        execute format('create function %s_checked() returns trigger language plpgsql as %L', written, format(
            'begin if not (%s) then raise exception using errcode = ''check_violation'', '
            'message = ''%s: a row breaks '' || case %s end; end if; return new; end',
            conditions, written, broken
        ));
        execute format(
            'create trigger checked before insert or update on %s for each row execute function %s_checked()',
            written, written
        );
        execute format('alter table %s %s', written, drops);
    end loop;
end
$body$;

create function state.head_moves() returns trigger language plpgsql as $body$
begin
    if new.turn_epoch < old.turn_epoch or new.revision < old.revision
        or (new.revision = old.revision and (
            new.status <> old.status or new.turn_epoch <> old.turn_epoch or new.owner <> old.owner
            or new.active_agent_turn_id is distinct from old.active_agent_turn_id
            or new.waiting_tool_count <> old.waiting_tool_count))
        or (new.status = 'dispatched' and old.status not in ('idle', 'dispatched'))
        or (new.status = 'running' and old.status = 'idle')
        or (new.status = 'suspended' and old.status not in ('running', 'suspended'))
        or (new.status = 'dispatched' and old.status = 'idle' and new.turn_epoch = old.turn_epoch)
        or new.active_agent_turn_id <> old.active_agent_turn_id then
        raise exception using errcode = 'check_violation',
            message = 'agent_state_head: epoch and revision only grow, and a turn moves as the protocol says';
    end if;
    return new;
end
$body$;

create trigger agent_state_head_moves before update on state.agent_state_head
for each row execute function state.head_moves();

create function state.inbox_final() returns trigger language plpgsql as $body$
begin
    if old.status in ('consumed', 'error', 'skipped') and new.status <> old.status then
        raise exception using errcode = 'check_violation', message = 'agent_inbox: a message that is done stays done';
    end if;
    return new;
end
$body$;

create trigger agent_inbox_final before update on state.agent_inbox
for each row execute function state.inbox_final();

create function state.waits_final() returns trigger language plpgsql as $body$
begin
    if old.wait_status in ('applied', 'expired', 'dropped') then
        raise exception using errcode = 'check_violation', message = 'turn_waiting_tools: a result is applied once';
    end if;
    return new;
end
$body$;

create trigger turn_waiting_tools_final before update on state.turn_waiting_tools
for each row execute function state.waits_final();

create function state.refuse() returns trigger language plpgsql as $body$
begin
    raise exception using errcode = 'check_violation', message = tg_argv[0];
end
$body$;

create trigger cards_fixed before update on cardbox.cards
for each row execute function state.refuse('cards: a card never changes');

create trigger box_cards_fixed before update on cardbox.box_cards
for each row execute function state.refuse('box_cards: a box is only appended to');

create function cardbox.check_writer() returns trigger language plpgsql as $body$
begin
    perform 1 from cardbox.card_boxes as box
    where box.project_id = new.project_id and box.box_id = new.box_id
        and new.position < box.length and new.agent_turn_id = box.writer;
    if not found then
        raise exception using errcode = 'check_violation',
            message = 'box_cards: only the turn that holds an output box writes to it, at its end';
    end if;
    return new;
end
$body$;

create trigger box_cards_writer before insert on cardbox.box_cards
for each row execute function cardbox.check_writer();

create function cardbox.boxes_grow() returns trigger language plpgsql as $body$
begin
    if new.kind <> old.kind or new.length < old.length
        or (new.length > old.length and (old.held = 0 or new.writer <> old.writer))
        or (old.held = 1 and new.writer <> old.writer) then
        raise exception using errcode = 'check_violation',
            message = 'card_boxes: only an output box grows, by the turn that holds it';
    end if;
    return new;
end
$body$;

create trigger card_boxes_writer before update on cardbox.card_boxes
for each row execute function cardbox.boxes_grow();
