-- The names of all queues that hold something.
return redis.call('SMEMBERS', KEYS[1])
