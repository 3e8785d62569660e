# %% [markdown]
# # A day of prices, and yesterday's
# A notebook: the cells of this file run in Jupyter, VS Code, or as one program. MIMEO_URL, MIMEO_DATABASE and MIMEO_TOKEN
# name a server; `Docs/examples` has to be on the path for the client of its history.

# %%
import json
import os
import tempfile
import urllib.request

import mimeo
from mimeo_http import Mimeo

url, database, token = (os.environ[name] for name in ("MIMEO_URL", "MIMEO_DATABASE", "MIMEO_TOKEN"))
db = mimeo.open(tempfile.mkdtemp(), database=database, server=url, login=("development", token))
db.subscribe("SELECT * FROM prices")
db.start_sync()

# %% A peer writes: it needs no connection for that.
db.execute("INSERT INTO prices DOCUMENTS (:p) ON ID CONFLICT DO UPDATE", p={"_id": "bread", "cents": 310})
for cents in (320, 335, 299):
    last = db.execute("UPDATE prices SET cents = :c WHERE _id = 'bread'", c=cents).commit
assert db.wait_acknowledged(last, 60)

# %% The server remembers: each change of the document, the newest first.
server = Mimeo(url, database, token)
request = urllib.request.Request(f"{url}/api/v5/history/prices/bread?limit=10",
                                 headers={"Authorization": f"Bearer {server.bearer}"})
entries = json.load(urllib.request.urlopen(request))["entries"]
print(len(entries), "changes")

# %% And what the prices were, before the last one.
offset = entries[1]["transactionId"]
before = server.execute("SELECT * FROM prices", as_of=offset)
print("before:", before[0]["cents"], "now:", db.execute("SELECT cents FROM prices WHERE _id = 'bread'").scalar())

# %% A notebook shows a result as a table; `to_pandas()` makes a DataFrame where pandas is installed.
db.execute("SELECT * FROM prices")

# %%
db.close()
