"""What is wrong with a store and its surroundings, and what to do about it.

finding    one finding; a check is a function that gives some
diagnosis  all checks of what the settings name, in order
sqlite_files, schema_check, store_checks, postgres_server, mongo_server, redis_server, nats_server: the checks
"""
