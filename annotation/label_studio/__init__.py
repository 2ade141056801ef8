"""Label Studio: a round carried to a Label Studio server and back, through its SDK (extra `label-studio`).

layout.py    what people see there: the labelling configuration, and a view as the data of a task
answers.py   an annotation as Label Studio keeps it -> a Response, or a RecordError: the server checks nothing
remote.py    the server behind its SDK: projects, tasks, and every fault as an AnnotationError
server.py    a Label Studio of ours, on this machine
route.py     the route
"""
