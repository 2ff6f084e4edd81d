-- uses: clock queue
-- With types: a subscription. Without: its end; 0 when there was none. `subs` is what all of them ask for together.
local SUBS, SUBSCRIPTIONS = KEYS[9], KEYS[10]
local id, types = ARGV[FIRST], ARGV[FIRST + 1]
redis.call('SCARD', SUBS)
redis.call('HLEN', MESSAGES)
local changed = 1
if types == '' then
  changed = redis.call('HDEL', SUBSCRIPTIONS, id)
else
  redis.call('HSET', SUBSCRIPTIONS, id, types)
end
redis.call('DEL', SUBS)
for _, wanted in ipairs(redis.call('HVALS', SUBSCRIPTIONS)) do
  for kind in string.gmatch(wanted, '[^,]+') do redis.call('SADD', SUBS, kind) end
end
-- Whoever waits may be handed more than before.
local waiting = redis.call('HLEN', MESSAGES)
if waiting > 0 then redis.call('PUBLISH', ARGV[1], digits(waiting)) end
return changed
