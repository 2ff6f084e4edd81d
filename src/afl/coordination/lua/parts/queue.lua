-- One queue. Keys and the first arguments are the same for all message scripts (see keys.py, redis_broker.py).
-- A call from Lua costs as much as the rest of a short script, so each has only those that it needs. A key of another
-- kind must be found before anything is written: by reading it, by writing to it first, or by undoing what was done.
-- A server that is out of memory refuses a script whose first write takes some, so what frees memory begins by that.
local MESSAGES, RESERVED, DEADLINES = KEYS[1], KEYS[5], KEYS[6]
local DEAD, AUDIT, QUEUES = KEYS[7], KEYS[8], KEYS[13]
local AUDIT_LENGTH = tonumber(ARGV[8])
local FIRST = 12

-- The trail is cut now and then, and ends about a week after its last line.
local function audit(event, member)
  if AUDIT_LENGTH > 0 then
    local length = redis.call('RPUSH', AUDIT, stamp .. ' ' .. event .. ' ' .. string.sub(member, 18))
    if length > AUDIT_LENGTH + 64 then redis.call('LTRIM', AUDIT, -AUDIT_LENGTH, -1) end
    if length % 32 == 1 then redis.call('EXPIRE', AUDIT, 691200) end
  end
end

-- An idle queue leaves nothing behind but its audit trail. Field '' of the messages is the queue's own state.
local function settle(left)
  if left <= 1 then
    redis.call('DEL', MESSAGES)
    if redis.call('EXISTS', DEAD) == 0 then redis.pcall('SREM', QUEUES, ARGV[2]) end
  end
end
