-- Records and capabilities of agents at one moment; index entries whose record is gone are removed.
--
-- KEYS: agents index (set), capabilities index (set), then for each agent its record and its capabilities
-- Gives the time in milliseconds, and for each agent its record and its capabilities.

local CHUNK = 1000
local values = {}
for first = 3, #KEYS, CHUNK do
  local last = math.min(first + CHUNK - 1, #KEYS)
  local found = redis.call('MGET', unpack(KEYS, first, last))
  for i = 1, last - first + 1 do values[first - 3 + i] = found[i] end
end
for i = 3, #KEYS, 2 do
  if not values[i - 2] then
    redis.call('SREM', KEYS[1], KEYS[i])
    redis.call('SREM', KEYS[2], KEYS[i + 1])
  end
end
local clock = redis.call('TIME')
return { clock[1] * 1000 + math.floor(clock[2] / 1000), values }
