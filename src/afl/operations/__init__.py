"""What a person can do with AgentFlow, as typed functions. Faces (cli, dashboard, mcp) render what these return.

sources       files and texts to compile
compilation   sources -> findings and a compiled program
formatting    sources in the standard form
agents        a module's handlers
inputs        the inputs of a run, from text and files
runs          start, resume and find runs
embedding     one call for programs that use AgentFlow as a library
run_tree      a run's steps as a tree, foreach folded
servers       the local servers
"""
