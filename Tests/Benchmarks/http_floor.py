"""The reference of `http_cost.py`: what one would write with FastAPI and sqlite3 instead, for the same requests.

It checks no token and knows one statement of each kind: `uvicorn --app-dir Tests/Benchmarks http_floor:app`.
"""

import json
import os
import sqlite3

from fastapi import FastAPI, Request
from fastapi.responses import Response

app = FastAPI()
db = sqlite3.connect(os.environ["FLOOR_DATABASE"], check_same_thread=False, isolation_level=None)
db.execute("PRAGMA journal_mode = wal")
db.execute("PRAGMA synchronous = full")
db.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, doc TEXT)")
db.execute("CREATE INDEX by_customer ON orders (json_extract(doc, '$.customer'))")
db.execute("CREATE TABLE written (id TEXT PRIMARY KEY, doc TEXT)")
db.execute("BEGIN")
db.executemany("INSERT INTO orders VALUES (?, ?)", [
    (row["_id"], json.dumps(row)) for row in json.load(open(os.environ["FLOOR_ROWS"], encoding="utf-8"))])
db.execute("COMMIT")


@app.get("/health")
async def health():
    return {"status": "ok"}


@app.post("/api/v5/store/execute")
async def execute(request: Request):
    given = json.loads(await request.body())["args"]
    if "i" in given:
        rows = db.execute("SELECT doc FROM orders WHERE id = ?", (given["i"],)).fetchall()
    elif "c" in given:
        rows = db.execute("SELECT doc FROM orders WHERE json_extract(doc, '$.customer') = ?", (given["c"],)).fetchall()
    else:
        db.execute("INSERT INTO written VALUES (?, ?)", (given["d"]["_id"], json.dumps(given["d"])))
        rows = []
    return Response('{"items":[' + ",".join(row[0] for row in rows) + "]}", media_type="application/json")
