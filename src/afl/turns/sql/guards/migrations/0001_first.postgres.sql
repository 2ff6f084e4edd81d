-- What no statement may do, whoever writes it. The server evaluates WHEN without calling the function.

create function state.refuse() returns trigger language plpgsql as $body$
begin
    raise exception using errcode = 'check_violation', message = tg_argv[0];
end
$body$;

create trigger agent_state_head_moves before update on state.agent_state_head
for each row when (
    new.turn_epoch < old.turn_epoch or new.revision < old.revision
    or (new.revision = old.revision and (
        new.status <> old.status or new.turn_epoch <> old.turn_epoch or new.owner <> old.owner
        or new.active_agent_turn_id is distinct from old.active_agent_turn_id
        or new.waiting_tool_count <> old.waiting_tool_count))
    or (new.status = 'dispatched' and old.status not in ('idle', 'dispatched'))
    or (new.status = 'running' and old.status = 'idle')
    or (new.status = 'suspended' and old.status not in ('running', 'suspended'))
    or (new.status = 'dispatched' and old.status = 'idle' and new.turn_epoch = old.turn_epoch)
    or (new.active_agent_turn_id <> old.active_agent_turn_id)
)
execute function state.refuse('agent_state_head: epoch and revision only grow, and a turn moves as the protocol says');

create trigger agent_inbox_final before update on state.agent_inbox
for each row when (old.status in ('consumed', 'error', 'skipped') and new.status <> old.status)
execute function state.refuse('agent_inbox: a message that is done stays done');

create trigger turn_waiting_tools_final before update on state.turn_waiting_tools
for each row when (old.wait_status in ('applied', 'expired', 'dropped'))
execute function state.refuse('turn_waiting_tools: a result is applied once');

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

create trigger card_boxes_writer before update on cardbox.card_boxes
for each row when (
    new.kind <> old.kind or new.length < old.length
    or (new.length > old.length and (old.held = 0 or new.writer <> old.writer))
    or (old.held = 1 and new.writer <> old.writer)
)
execute function state.refuse('card_boxes: only an output box grows, by the turn that holds it');
