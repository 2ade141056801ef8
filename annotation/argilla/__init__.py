"""Argilla as a route: the round's items in a workspace for each person, and their answers back.

    route.py      push, pull, status, start: what the protocol asks (`annotation/routes.py`)
    desk.py       one person on the server: account, workspace, datasets, records
    form.py       what they see of a View and what is asked; answers.py what comes back, checked
    accounts.py   names and passwords, in a file that only its owner may read
    client.py     the SDK, its errors in our words
    server.py     an Argilla of our own; embedded/ runs in that server's environment, without Elasticsearch and Redis

May import: annotation's other rooms, ser_toolkit. The SDK is an extra, imported inside functions.
"""
