-- The record of an agent. KEYS: record
return redis.call('GET', KEYS[1])
