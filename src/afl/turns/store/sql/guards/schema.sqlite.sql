-- What no statement may do.

create trigger state_agent_state_head_moves before update on state_agent_state_head
when new.turn_epoch < old.turn_epoch or new.revision < old.revision
    or (new.revision = old.revision and (
        new.status <> old.status or new.turn_epoch <> old.turn_epoch or new.owner <> old.owner
        or new.active_agent_turn_id is not old.active_agent_turn_id
        or new.waiting_tool_count <> old.waiting_tool_count))
    or (new.status = 'dispatched' and old.status not in ('idle', 'dispatched'))
    or (new.status = 'running' and old.status = 'idle')
    or (new.status = 'suspended' and old.status not in ('running', 'suspended'))
    or (new.status = 'dispatched' and old.status = 'idle' and new.turn_epoch = old.turn_epoch)
    or (new.active_agent_turn_id <> old.active_agent_turn_id)
begin
    select raise(abort, 'agent_state_head: epoch and revision only grow, and a turn moves as the protocol says');
end;

create trigger state_agent_inbox_final before update on state_agent_inbox
when old.status in ('consumed', 'error', 'skipped') and new.status <> old.status
begin
    select raise(abort, 'agent_inbox: a message that is done stays done');
end;

create trigger state_turn_waiting_tools_final before update on state_turn_waiting_tools
when old.wait_status in ('applied', 'expired', 'dropped')
begin
    select raise(abort, 'turn_waiting_tools: a result is applied once');
end;

create trigger cardbox_cards_fixed before update on cardbox_cards
begin
    select raise(abort, 'cards: a card never changes');
end;

create trigger cardbox_box_cards_fixed before update on cardbox_box_cards
begin
    select raise(abort, 'box_cards: a box is only appended to');
end;

create trigger cardbox_box_cards_writer before insert on cardbox_box_cards
when not exists (
    select 1 from cardbox_card_boxes as box
    where box.project_id = new.project_id and box.box_id = new.box_id
        and new.position < box.length and new.agent_turn_id = box.writer
)
begin
    select raise(abort, 'box_cards: only the turn that holds an output box writes to it, at its end');
end;

create trigger cardbox_card_boxes_writer before update on cardbox_card_boxes
when new.kind <> old.kind or new.length < old.length
    or (new.length > old.length and (old.held = 0 or new.writer <> old.writer))
    or (old.held = 1 and new.writer <> old.writer)
begin
    select raise(abort, 'card_boxes: only an output box grows, by the turn that holds it');
end;
