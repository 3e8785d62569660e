"""The alert rules in Prometheus and Alertmanager themselves: each rule gets its series, and each fault its alert."""

import http.server
import json
import os
import re
import shutil
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request

from mimeo_harness import ROOT, FourProcesses, binary, deep_only, free_port, until
from system_test import SystemTest, report

FOLDER = ROOT / "monitoring"
TOOLS = ("prometheus", "promtool", "prometheus-alertmanager", "amtool")
STEP = 10
"""Seconds between evaluations, as prometheus.yml has it."""
LONG_STEP = 300
"""The same for an alert that takes longer than `LONG` seconds."""
LONG = 7_200
FAULT = 600
"""Seconds after which the series of a case change."""
WELL = FAULT // STEP - 1
SECONDS_TO_ALERTMANAGER = 60
SECONDS_ON_THE_WAY = 30
"""At most: a scrape that times out (15 s), the evaluation after it (10 s), Alertmanager's wait for a group (5 s)."""


def turns(well, ill):
    """A series that is `well` until the fault, and `ill` from then on."""
    return f"{well}x{WELL} {ill}x500"


def grows(rate):
    """A counter that stands still until the fault, and grows by `rate` a second from then on."""
    return turns("0", f"0+{rate * STEP}")


ALERTS = {
    # alert: (series, seconds from the fault until it fires). It is silent one evaluation earlier.
    "MimeoDown": ({'up{job="mimeo-services", instance="replicator:4002"}': turns(1, 0),
                   'up{job="mimeo", instance="10.0.0.5:4002"}': f"1x{WELL} 0x3 stale"}, 20),
    "MimeoUnwatched": ({'up{job="mimeo", instance="a"}': f"1x{WELL} stale"}, 20),
    "MimeoInstanceGone": ({'up{job="mimeo", instance="a"}': "1x500",
                           'up{job="mimeo", instance="b"}': f"1x{WELL} stale"}, 30),
    "MimeoNotReady": ({"mimeo_ready": turns(1, 0)}, 20),
    "MimeoLogOutOfContact": ({"mimeo_log_contact_age_seconds": turns(0.2, "0+10")}, 30),
    "MimeoCanaryFails": ({"mimeo_canary_seconds": turns(0.2, "0+10")}, 30),
    "MimeoCanarySlow": ({"mimeo_canary_seconds": turns(0.2, 3)}, 120),
    "MimeoFoldLag": ({'mimeo_fold_lag_seconds{database="d"}': turns(0, 31)}, 120),
    "MimeoSessionLag": ({'mimeo_sync_lag_seconds{database="d"}': turns(0, 301)}, 300),
    "MimeoAppendSlow": ({'mimeo_log_append_duration_seconds_bucket{le="1"}': turns("0+10", f"{10 * WELL}+0"),
                         'mimeo_log_append_duration_seconds_bucket{le="2.5"}': "0+10x500",
                         'mimeo_log_append_duration_seconds_bucket{le="+Inf"}': "0+10x500"}, 300),
    "MimeoLogErrors": ({'mimeo_log_errors_total{code="LOG-0302"}': grows(1)}, 340),
    "MimeoStandbyGone": ({"mimeo_postgres_standbys": turns(1, 0)}, 30),
    "MimeoClusterBlind": ({"patroni_dcs_last_seen": f"0+{STEP}x{WELL} {STEP * WELL}x500"}, 30),
    "MimeoStandbyUnused": ({"patroni_replica": "1x500", "patroni_sync_standby": turns(1, 0)}, 60),
    "MimeoDamage": ({"mimeo_log_damage_met_total": turns(0, 1)}, 0),
    "MimeoDiskFilling": ({'mimeo_disk_free_bytes{volume="data"}': turns(50, 19),
                          'mimeo_disk_size_bytes{volume="data"}': "100x500"}, 600),
    "MimeoDiskNearlyFull": ({"mimeo_disk_nearly_full": turns(0, 1)}, 0),
    "MimeoLimitNear": ({'mimeo_limit_used{database="d", of="user", limit="sessions"}': turns(4, 5),
                        'mimeo_limit_most{database="d", of="user", limit="sessions"}': "6x500"}, 300),
    "MimeoCertificateEnds": ({"mimeo_tls_certificate_expiry_timestamp_seconds": f"{FAULT + 7 * 86400}x500"}, 10),
    "MimeoRefusedWrites": ({'mimeo_sync_refused_writes_total{code="c"}': grows(20)}, 640),
    "MimeoLoginsFail": ({'mimeo_auth_logins_total{result="failed"}': grows(1)}, 340),
    "MimeoWebhooksFail": ({'mimeo_webhook_deliveries_total{result="failed"}': grows(1),
                           'mimeo_webhook_deliveries_total{result="ok"}': "0+10x500"}, 670),
    "MimeoServerErrors": ({'mimeo_http_requests_total{service="s", status="5xx"}': grows(1),
                           'mimeo_http_requests_total{service="s", status="2xx"}': "0+10x500"}, 320),
    "MimeoRestarts": ({'process_start_time_seconds{job="mimeo"}': f"1x{WELL} 2 3 4x500"}, 20),
    "MimeoFilesRunOut": ({'process_open_fds{job="mimeo"}': turns(10, 81),
                          'process_max_fds{job="mimeo"}': "100x500"}, 300),
    "MimeoBackupOld": ({'mimeo_backup_last_success_timestamp_seconds{kind="full"}': "0x500"},
                       26 * 3600 + LONG_STEP - FAULT),
    "MimeoBackupStopped": ({
        'mimeo_backup_last_success_timestamp_seconds{kind="incremental"}': f"0+10x{WELL} {STEP * WELL}x500",
        'mimeo_log_head_offset{database="d"}': "0+5x500"}, 900),
    "MimeoBackupMissing": ({"mimeo_ready": "1x500"}, 26 * 3600 - FAULT),
    "MimeoBackupFailed": ({"mimeo_backup_last_failure_timestamp_seconds": f"_x{WELL + 1} {FAULT}x500"}, 0),
    "MimeoLogRefuses": ({"mimeo_log_refusing": turns(0, 1)}, 10),
    "MimeoAppendStalls": ({"mimeo_log_append_age_seconds": turns(0, "0+10")}, 20),
    "MimeoStorageFails": ({'mimeo_log_errors_total{code="LOG-0301"}': f"_x{WELL + 1} 1x500"}, 0),
}
"""Each alert of rules.yml."""

SILENT = {
    "a restart within two scrapes": ("MimeoDown", {'up{job="mimeo-services"}': f"1x{WELL} 0 0 1x20"}, 20),
    "a standby that paused for a moment": (
        "MimeoAppendStalls", {"mimeo_log_append_age_seconds": f"0x{WELL} 6 0x20"}, 20),
    "no document is written": ("MimeoBackupStopped", {
        'mimeo_backup_last_success_timestamp_seconds{kind="incremental"}': f"0+10x{WELL} {STEP * WELL}x500",
        'mimeo_log_head_offset{database="mimeo.system"}': "0+5x500",
        'mimeo_log_head_offset{database="d"}': "7x500"}, 1_200),
    "a backup each night": ("MimeoBackupStopped", {
        'mimeo_backup_last_success_timestamp_seconds{kind="full"}': "0x500",
        'mimeo_log_head_offset{database="d"}': "0+5x500"}, 1_200),
    "a backup after a failed one": ("MimeoBackupFailed", {
        "mimeo_backup_last_failure_timestamp_seconds": "100x500",
        'mimeo_backup_last_success_timestamp_seconds{kind="full"}': "200x500"}, 60),
    "one server alone": ("MimeoStandbyUnused", {"patroni_replica": "0x500", "patroni_sync_standby": "0x500"}, 120),
    "etcd answers late": ("MimeoClusterBlind", {
        "patroni_dcs_last_seen": f"0+{STEP}x{WELL} {STEP * WELL}x1 {FAULT + 20}+{STEP}x500"}, 40),
    "an old error of the storage": ("MimeoStorageFails", {'mimeo_log_errors_total{code="LOG-0301"}': "5x500"}, 0),
    "a busy log": ("MimeoStorageFails", {'mimeo_log_errors_total{code="LOG-0302"}': grows(9)}, 60),
}
"""Cases in which an alert stays silent: its name, the series, seconds after the fault."""


def unit(series, alert, firing, step=STEP):
    """A case for promtool. `firing` has for some seconds of the test whether the alert fires then."""
    return {
        "interval": f"{step}s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) > bool 0', "eval_time": f"{second}s",
             "exp_samples": [{"labels": "{}", "value": 1}] if fires else []}
            for second, fires in firing.items()]}


class Monitoring(SystemTest):
    @classmethod
    def setUpClass(cls):
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            raise unittest.SkipTest(f"{', '.join(missing)} are missing: scripts/setup system installs them")

    def run_tool(self, *command):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, f"{done.stdout}{done.stderr}")
        return done.stdout

    def rules(self):
        """The alerts of rules.yml: name, `for` in seconds, severity."""
        text = (FOLDER / "rules.yml").read_text()
        units = {"s": 1, "m": 60, "h": 3600}
        for block in text.split("- alert: ")[1:]:
            held = re.search(r"\n        for: (\d+)([smh])\n", block)
            yield (block.split("\n")[0], int(held[1]) * units[held[2]] if held else 0,
                   re.search(r"severity: (\w+)", block)[1])


class Rules(Monitoring):
    def promtool(self, *units, step=STEP):
        file = self.workspace.directory / "rules.test.yml"
        file.write_text(json.dumps({
            "rule_files": [str(FOLDER / "rules.yml")], "evaluation_interval": f"{step}s", "tests": units}))
        self.run_tool("promtool", "test", "rules", file)

    def test_rules_and_configurations_are_valid(self):
        self.run_tool("promtool", "check", "rules", FOLDER / "rules.yml")
        text = (FOLDER / "prometheus.yml").read_text().replace("/etc/prometheus", str(FOLDER))
        file = self.workspace.directory / "prometheus.yml"
        file.write_text(text)
        self.run_tool("promtool", "check", "config", file)
        self.run_tool("amtool", "check-config", FOLDER / "alertmanager.yml")

    def test_each_alert_fires_after_its_fault_and_not_before(self):
        self.assertEqual(set(ALERTS), {name for name, *_ in self.rules()})
        for step, is_long in ((STEP, False), (LONG_STEP, True)):
            self.promtool(step=step, *(
                unit(series, alert, {FAULT + seconds - step: False, FAULT + seconds: True}, step)
                for alert, (series, seconds) in ALERTS.items() if (seconds > LONG) == is_long))

    def test_what_is_no_fault_alerts_nobody(self):
        self.promtool(*(unit(series, alert, {FAULT + seconds: False}) for alert, series, seconds in SILENT.values()))

    def test_an_alert_stays_when_its_target_is_gone_from_dns(self):
        series, seconds = ALERTS["MimeoDown"]
        self.promtool(unit(series, "MimeoDown", {FAULT + seconds: True, FAULT + 240: True, FAULT + 3_600: True}))

    def test_promtool_finds_a_case_that_is_wrong(self):
        series, seconds = ALERTS["MimeoDown"]
        with self.assertRaisesRegex(AssertionError, "FAILED"):
            self.promtool(unit(series, "MimeoDown", {FAULT + seconds: False}))

    def test_a_critical_alert_is_at_alertmanager_within_a_minute(self):
        text = (FOLDER / "prometheus.yml").read_text()
        for name in ("scrape", "evaluation"):
            self.assertIn(f"  {name}_interval: {STEP}s\n", text)
        self.assertIn("  scrape_timeout: 5s\n", text)
        self.assertIn("  group_wait: 5s\n", (FOLDER / "alertmanager.yml").read_text())
        late = {"MimeoBackupOld", "MimeoBackupStopped", "MimeoBackupMissing"}
        critical = {name for name, _, severity in self.rules() if severity == "critical"}
        self.assertLessEqual(late, critical)
        for name in critical - late:
            self.assertLessEqual(ALERTS[name][1] + SECONDS_ON_THE_WAY, SECONDS_TO_ALERTMANAGER, name)


class Watch:
    """Prometheus with the shipped configuration and rules, and Alertmanager. `targets` has an address for each name of
    prometheus.yml; `replace` changes further words of the files."""

    def __init__(self, workspace, targets, replace=()):
        self.port, alertmanager, cluster = free_port(), free_port(), free_port()
        self.alertmanager = f"http://127.0.0.1:{alertmanager}"
        folder = workspace.directory / "watch"
        folder.mkdir()
        for name in ("prometheus.yml", "rules.yml", "alertmanager.yml"):
            text = (FOLDER / name).read_text().replace("/etc/prometheus", str(folder))
            for known, address in {**targets, "alertmanager:9093": f"127.0.0.1:{alertmanager}"}.items():
                text = text.replace(known, address)
            for pattern, other in replace:
                text = re.sub(pattern, other, text)
            (folder / name).write_text(text)
        workspace.start("alertmanager", [
            "prometheus-alertmanager", f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'alertmanager'}", f"--web.listen-address=127.0.0.1:{alertmanager}",
            "--cluster.listen-address="])
        workspace.start("prometheus", [
            "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}"])

    @staticmethod
    def _get(url):
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError):
            return None

    def up(self):
        """The instances that answered the last scrape, as job and instance."""
        found = self._get(f"http://127.0.0.1:{self.port}/api/v1/query?query=up%20%3D%3D%201")
        rows = found["data"]["result"] if found else []
        return {(row["metric"]["job"], row["metric"]["instance"]) for row in rows}

    def alerts(self):
        """What is at Alertmanager, as alert and instance."""
        found = self._get(f"{self.alertmanager}/api/v2/alerts?active=true") or []
        return {(alert["labels"]["alertname"], alert["labels"].get("instance")) for alert in found}


class Metrics(http.server.ThreadingHTTPServer):
    """A process that answers every request as `/metrics` of a healthy service does."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.address = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def end(self):
        self.shutdown()
        self.server_close()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(b"mimeo_ready 1\nmimeo_log_contact_age_seconds 0.1\n")

    def log_message(self, *_):
        pass


SERVICES = {"auth-gateway": 4001, "replicator": 4002, "query-service": 4003, "attachment-store": 4004}
NO_NAMES = (r"names: \[[a-z-]+\]", "names: [localhost]")


class Alerting(Monitoring):
    def test_a_service_without_a_name_in_dns_is_at_alertmanager_and_the_others_are_not(self):
        servers = {name: Metrics() for name in (*SERVICES, "front")}
        for server in servers.values():
            self.addCleanup(server.server_close)
        targets = {f"{name}:{port}": servers[name].address for name, port in SERVICES.items()}
        targets["front:4000"] = servers["front"].address
        # Labelled by the address, because that is what differs here from the shipped file.
        targets["replicator:4002"] = "replicator.invalid:4002"
        watch = Watch(self.workspace, targets, [
            NO_NAMES, (r"for: 1\ds", "for: 2s"), (r"_(interval|timeout|wait): \d+s", r"_\1: 1s")])
        gone = ("MimeoDown", "replicator.invalid:4002")
        until(lambda: gone in watch.alerts(), 60, lambda: f"{watch.alerts()}")
        others = {address for name, address in targets.items() if name not in ("replicator:4002", "front:4000")}
        self.assertEqual({instance for job, instance in watch.up() if job == "mimeo-services"}, others)
        self.assertEqual({alert for alert in watch.alerts() if alert[1] in others}, set())
        front = {("mimeo-front", f"front/{name}") for name in SERVICES}
        self.assertEqual({each for each in watch.up() if each[0] == "mimeo-front"}, front)
        servers["front"].end()
        until(lambda: {("MimeoDown", instance) for _, instance in front} <= watch.alerts(), 60,
              lambda: f"{watch.alerts()}")


@deep_only("Rules gives every alert its series, and Alerting runs Prometheus with shorter intervals")
class KilledServices(Monitoring):
    """The services themselves, and the shipped intervals: each that is killed is at Alertmanager within a minute."""

    seconds = 900

    def test_each_killed_service_is_at_alertmanager_within_a_minute(self):
        binary("mimeo")
        server = FourProcesses(self.workspace).start()
        addresses = {name: "{}:{}".format(*server.address_of(name)) for name in SERVICES}
        targets = {f"{name}:{port}": addresses[name] for name, port in SERVICES.items()}
        targets["front:4000"] = server.origin.removeprefix("http://")
        watch = Watch(self.workspace, targets, [NO_NAMES])
        wanted = {("mimeo-services", address) for address in addresses.values()}
        wanted |= {("mimeo-front", f"front/{name}") for name in SERVICES}
        until(lambda: wanted <= watch.up(), 60, lambda: f"{wanted - watch.up()}")
        for name, address in addresses.items():
            server.processes[name].kill()
            killed = time.monotonic()
            alerts = {("MimeoDown", address), ("MimeoDown", f"front/{name}")}
            until(lambda: alerts <= watch.alerts(), SECONDS_TO_ALERTMANAGER, lambda: f"{watch.alerts()}")
            report(f"{name} killed: at Alertmanager after {time.monotonic() - killed:.0f} s")
            server.start_service(name)
        server.processes["nginx"].kill()
        killed = time.monotonic()
        front = {("MimeoDown", f"front/{name}") for name in SERVICES}
        until(lambda: front <= watch.alerts(), SECONDS_TO_ALERTMANAGER, lambda: f"{watch.alerts()}")
        report(f"the front killed: at Alertmanager after {time.monotonic() - killed:.0f} s")


if __name__ == "__main__":
    unittest.main()
