-- An agent leaves. KEYS: agents index (set), capabilities index (set), beats (zset), dead (zset), record, capabilities
-- ARGV: name, event channel (empty: none), event (JSON object)

local clock = redis.call('TIME')
local seconds = string.format('%.3f', clock[1] + clock[2] / 1000000)
local there = redis.call('DEL', KEYS[5])
redis.call('DEL', KEYS[6])
redis.call('SREM', KEYS[1], KEYS[5])
redis.call('SREM', KEYS[2], KEYS[6])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
if there == 1 and ARGV[2] ~= '' then
  redis.call('PUBLISH', ARGV[2], string.sub(ARGV[3], 1, -2) .. ',"at":' .. seconds .. '}')
end
return there
