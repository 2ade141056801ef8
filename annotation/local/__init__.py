"""The built-in web UI: one process, one SQLite file, no build step and no outside request.

serve.py      the process: a socket, the links, the server
app.py        routes of HTTP, and the static files; knows no pydantic, so that the first page comes at once
guard.py      what every request must pass: host, origin, size; the headers of every answer
desk.py       a ledger in a thread of its own
access.py     who holds which link
wire.py       the shapes that travel, as pydantic records
annotating.py what an annotator may do        owning.py  what the owner may do
openapi.py    the description of both
page/         HTML, CSS, JavaScript modules and words, served as they stand
"""
