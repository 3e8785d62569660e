"""All that is observed during a fault: acknowledged writes, health, metrics, alerts, each with its time."""

import http.client
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from mimeo_harness import Client

from stack import SERVICES

PACE_SECONDS = 0.25
PROBES = {"health": "/health", "ready": "/health/ready", **{name: f"/admin/{name}/health" for name in SERVICES}}
STEP = 5
"""Seconds between the samples of a metric, half of Prometheus' interval."""
FIGURES = {
    # Each is a query that is true when the metric tells of a fault.
    "up": "min(up{job=~'mimeo.*'}) == 0",
    "mimeo_ready": "min(mimeo_ready) == 0",
    "mimeo_log_contact_age_seconds": "max(mimeo_log_contact_age_seconds) > 5",
    "mimeo_log_refusing": "max(mimeo_log_refusing) == 1",
    "mimeo_log_append_age_seconds": "max(mimeo_log_append_age_seconds) > 3",
    "mimeo_log_errors_total": "sum(increase(mimeo_log_errors_total[30s])) > 0",
    "mimeo_disk_nearly_full": "max(mimeo_disk_nearly_full) == 1",
    "mimeo_postgres_timeline": "max(delta(mimeo_postgres_timeline[30s])) > 0",
    "mimeo_postgres_standbys": "min(mimeo_postgres_standbys) == 0",
    "mimeo_fold_lag_seconds": "max(mimeo_fold_lag_seconds) > 5",
    "mimeo_projection_lag_seconds": "max(mimeo_projection_lag_seconds) > 5",
    "mimeo_sync_lag_seconds": "max(mimeo_sync_lag_seconds) > 5",
    "mimeo_http_requests_total": "sum(increase(mimeo_http_requests_total{status='5xx'}[30s])) > 0",
    "mimeo_sync_refused_writes_total": "sum(increase(mimeo_sync_refused_writes_total[30s])) > 0",
    "mimeo_auth_logins_total": "sum(increase(mimeo_auth_logins_total{result='failed'}[30s])) > 0",
    "mimeo_backup_last_failure_timestamp_seconds":
        "time() - max(mimeo_backup_last_failure_timestamp_seconds) < 30",
    "process_start_time_seconds": "time() - max(process_start_time_seconds{job='mimeo'}) < 30",
}


class Every(threading.Thread):
    """Calls `body` again and again until it is told to end."""

    def __init__(self, pause, body):
        super().__init__(daemon=True)
        self._pause, self._body, self._end = pause, body, threading.Event()
        self.start()

    def run(self):
        while not self._end.wait(self._pause):
            self._body()

    def end(self):
        self._end.set()
        self.join(60)


class Writer:
    """One client that writes a document after the other through the front, and notes which were acknowledged."""

    def __init__(self, client):
        self._client = client
        self._number = 0
        self.acknowledged = []
        """(time, id)"""
        self.refused = []
        """(time, status or None, code)"""
        self._thread = Every(PACE_SECONDS, self._write)

    def _write(self):
        self._number += 1
        name = f"h-{self._number}"
        status, code = None, ""
        try:
            answer = self._client.post_statement(f"INSERT INTO writes DOCUMENTS ({{'_id': '{name}'}})", seconds=15)
            status, code = answer.status, answer.error.get("code", "")
        except (OSError, RuntimeError, http.client.HTTPException) as problem:
            code = type(problem).__name__
        if status == 401:
            self._client.forget_login()
        at = time.monotonic()
        if status == 200:
            self.acknowledged.append((at, name))
        else:
            self.refused.append((at, status, code))

    def end(self):
        self._thread.end()


class Echo:
    """A peer that writes, and a client that waits until the front shows what it wrote."""

    def __init__(self, peer, client):
        self._peer, self._client = peer, client
        self._number = 0
        self.seen = []
        """(time, id)"""
        self._thread = Every(0.5, self._turn)

    def _turn(self):
        self._number += 1
        name = f"p-{self._number}"
        self._peer.execute(f"INSERT INTO writes DOCUMENTS ({{'_id': '{name}'}})")
        end = time.monotonic() + 240
        while time.monotonic() < end:
            try:
                answer = self._client.post_statement(f"SELECT _id FROM writes WHERE _id = '{name}'", seconds=5)
                if answer.status == 200 and answer.json["items"]:
                    self.seen.append((time.monotonic(), name))
                    return
                if answer.status == 401:
                    self._client.forget_login()
            except (OSError, RuntimeError, http.client.HTTPException):
                pass
            time.sleep(0.2)

    def end(self):
        self._thread.end()


def get(url, seconds=10):
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:
            return json.load(answer)
    except (OSError, urllib.error.URLError, ValueError, http.client.HTTPException):
        return None


class Watch:
    """Asks health once a second, and Alertmanager as often."""

    def __init__(self, origin, ports):
        self._origin = origin
        self._prometheus = f"http://127.0.0.1:{ports['prometheus']}"
        self._alertmanager = f"http://127.0.0.1:{ports['alertmanager']}"
        self.answers = {name: [] for name in PROBES}
        """(time, status; None without an answer) by probe"""
        self.alerts = {}
        """name: the time since which it is at Alertmanager; gone from here when it is over"""
        self.firings = []
        """(time, name)"""
        self.severities = {}
        self._threads = [Every(1, lambda name=name: self._probe(name)) for name in PROBES]
        self._threads.append(Every(1, self._look))

    def _probe(self, name):
        try:
            status = Client(self._origin).request("GET", PROBES[name], seconds=6).status
        except OSError:
            status = None
        self.answers[name].append((time.monotonic(), status))

    def _look(self):
        found = get(f"{self._alertmanager}/api/v2/alerts?active=true")
        if found is None:
            return
        now = time.monotonic()
        names = {alert["labels"]["alertname"]: alert["labels"].get("severity", "") for alert in found}
        self.severities |= names
        for name in set(names) - set(self.alerts):
            self.firings.append((now, name))
        self.alerts = {name: self.alerts.get(name, now) for name in names}

    def statuses_since(self, name, began):
        return [(at, status) for at, status in list(self.answers[name]) if at >= began]

    def figures(self, began_wall, ended_wall):
        """Each metric that told of it, and the seconds until it did."""
        told = {}
        for name, query in FIGURES.items():
            asked = urllib.parse.urlencode(
                {"query": query, "start": f"{began_wall:.0f}", "end": f"{ended_wall:.0f}", "step": STEP})
            found = get(f"{self._prometheus}/api/v1/query_range?{asked}")
            rows = found["data"]["result"] if found else []
            times = [float(at) for row in rows for at, _ in row["values"]]
            if times:
                told[name] = max(0, min(times) - began_wall)
        return told

    def is_up(self, count):
        found = get(f"{self._prometheus}/api/v1/query?query=count(up%7Bjob%3D~%22mimeo.*%22%7D%20%3D%3D%201)")
        rows = found["data"]["result"] if found else []
        return bool(rows) and float(rows[0]["value"][1]) >= count

    def end(self):
        for thread in self._threads:
            thread.end()
