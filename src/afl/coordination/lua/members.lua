-- The members of a set. KEYS: the set
return redis.call('SMEMBERS', KEYS[1])
