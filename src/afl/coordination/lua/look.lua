-- uses: clock queue
-- A stretch of the dead letters, or of the audit trail.
return redis.call('LRANGE', ARGV[FIRST] == 'dead' and DEAD or AUDIT, ARGV[FIRST + 1], ARGV[FIRST + 2])
