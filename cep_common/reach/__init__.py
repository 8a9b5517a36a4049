"""Allow lists of what plans may access from a process: files, hosts and databases. They are empty by default.

rules       which URLs and addresses a list allows
files       which files a list of folders allows, and those that no list opens
guard       the lists of one process, checked before anything is opened
connecting  addresses of hosts, checked after they were looked up
"""
