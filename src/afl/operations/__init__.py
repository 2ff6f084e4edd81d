"""What a person can do with AgentFlow, as typed functions. The command line, the dashboard and MCP render the results.

`catalog` is the table of all operations, `operation` one row of it, `parameters` the types that they share.
The clients (`afl.client`) call them on a store or on a server; `serialization` and `problems` are what goes over
HTTP. `access` has roles, users and tokens, `audit` the record of every action.
"""
