"""A service of FastAPI that has a peer of its own: it answers from its store, and tells browsers of each change.

    pip install fastapi uvicorn
    MIMEO_STORE=./service-store uvicorn service:app

`GET /cars` reads, `POST /cars` writes, `GET /cars/live` is a stream of server-sent events. With MIMEO_URL,
MIMEO_DATABASE and MIMEO_TOKEN set the store syncs with a server. Every worker needs a store of its own.
"""

import contextlib
import json
import os

import fastapi
import fastapi.responses

import mimeo

EVERYTHING = "SELECT * FROM cars ORDER BY _id"


@contextlib.asynccontextmanager
async def life(app):
    server = os.environ.get("MIMEO_URL")
    options = {}
    if server:
        options = {"server": server, "database": os.environ["MIMEO_DATABASE"],
                   "login": ("development", os.environ["MIMEO_TOKEN"])}
    async with mimeo.aio.open(os.environ["MIMEO_STORE"], **options) as db:
        app.state.db = db
        if server:
            db.subscribe("SELECT * FROM cars")
            db.start_sync()
        yield


app = fastapi.FastAPI(lifespan=life)


@app.get("/cars")
async def cars():
    return list(await app.state.db.execute(EVERYTHING))


@app.post("/cars", status_code=201)
async def add(car: dict):
    try:
        written = await app.state.db.execute("INSERT INTO cars DOCUMENTS (:car)", car=car)
    except mimeo.Error as error:
        raise fastapi.HTTPException(400, {"code": error.code, "message": error.message}) from None
    return {"id": written.mutated_ids[0]}


@app.get("/cars/live")
async def live():
    async def events():
        async with app.state.db.observe(EVERYTHING) as observation:
            async for rows in observation:
                yield f"data: {json.dumps(list(rows))}\n\n"

    return fastapi.responses.StreamingResponse(events(), media_type="text/event-stream")
