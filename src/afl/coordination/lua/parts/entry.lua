-- A message is stored once: "<attempts> <priority> <enqueued> <expires> <length of error>\n<error><body>".
-- Error (JSON text, empty for none) and body (JSON text) are never taken apart here.
local function read_entry(value)
  local attempts, priority, enqueued, expires, length, start =
    string.match(value, '^(%d+) ([951]) (%d+) (%d+) (%d+)\n()')
  if not attempts then return nil end
  local body = start + tonumber(length)
  return {
    attempts = tonumber(attempts), priority = priority, enqueued = enqueued, expires = tonumber(expires),
    error = string.sub(value, start, body - 1), body = string.sub(value, body),
  }
end

local function written(entry)
  return string.format('%d %s %s %s %d\n', entry.attempts, entry.priority, entry.enqueued,
    digits(entry.expires), #entry.error) .. entry.error .. entry.body
end

-- What was reserved under a token, "<priority>:<score>:<expires>:<member>"; what it expires at comes last.
local function read_hold(hold)
  local priority, score, expires, member = string.match(hold, '^([951]):([^:]+):(%d+):(.*)$')
  return priority, score, member, expires
end

local function forget(member)
  redis.call('HDEL', MESSAGES, member)
  redis.call('ZREM', EXPIRING, member)
end

local DEAD_LIMIT = tonumber(ARGV[9])
local buried = {}

-- To the dead letters. `reason` and `error` are JSON text; the message stands last, so that it can be cut out again.
local function bury(member, value, entry, reason)
  local id = stamp .. '-' .. string.sub(member, 1, 16)
  local tail
  if not entry then
    tail = '"raw":' .. cjson.encode(value)
  else
    local problem = entry.error == '' and 'null' or entry.error
    tail = '"delivery_attempts":' .. entry.attempts .. ',"last_error":' .. problem .. ',"priority":' .. entry.priority
      .. ',"enqueued_at":' .. entry.enqueued .. ',"message":' .. entry.body
  end
  forget(member)
  local length = redis.call('RPUSH', DEAD,
    '{"dead_id":"' .. id .. '","dead_at":' .. stamp .. ',"reason":' .. reason .. ',' .. tail .. '}')
  if length > DEAD_LIMIT then redis.call('LTRIM', DEAD, -DEAD_LIMIT, -1) end
  audit('dead', member)
  buried[#buried + 1] = (entry and entry.attempts or 0) .. ' ' .. string.gsub(string.sub(member, 18), '%c', ' ')
end

-- Those that were buried: "<attempts> <message id>" on a line each.
local function obituary()
  return table.concat(buried, '\n')
end
