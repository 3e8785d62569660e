"""The table of a run, as Markdown."""

HEAD = """\
# Faults

Containers of [compose](../compose/README.md) that something breaks, with two servers of PostgreSQL
under Patroni, the four services, the front, Prometheus and Alertmanager as they are shipped. `make faults`
wrote this page. While a client and a peer write all the time, it makes each fault, waits for its alert and
mends it.

- *gap*: the longest time without an acknowledged write over HTTP, and without a peer's write seen over HTTP.
- *refused*: answers to the writes other than 200, the three most frequent.
- *health*, *ready*: seconds until the front's `/health` and `/health/ready` were not 200.
- *alerts*: seconds from the fault until each was at Alertmanager.
- *back*: seconds from the repair until writes, sync and health were well again.

{written_http} writes over HTTP and {written_peer} writes of the peer were acknowledged. {lost} of them were lost.

| fault | gap: writes, sync | refused | health, ready | alerts | back | |
|---|--:|---|--:|---|--:|---|
"""


def seconds(value):
    return "–" if value is None else f"{value:.0f} s"


def row(verdict):
    refused = ", ".join(f"{count} × {key}" for key, count in sorted(verdict.refused.items(), key=lambda x: -x[1])[:3])
    alerts = ", ".join(f"{name.removeprefix('Mimeo')} {at:.0f} s" for name, at in verdict.alerts.items())
    return (f"| {verdict.name} | {verdict.write_gap:.1f} s, {verdict.sync_gap:.1f} s | {refused or '–'} "
            f"| {seconds(verdict.health)}, {seconds(verdict.ready)} | {alerts or '–'} | {seconds(verdict.recovery)} "
            f"| {'; '.join(verdict.problems) or 'as it should be'} |")


def metrics_row(verdict):
    told = ", ".join(f"`{name}` {at:.0f} s" for name, at in sorted(verdict.metrics.items(), key=lambda each: each[1]))
    services = ", ".join(f"{name} {at:.0f} s" for name, at in verdict.services.items())
    return f"| {verdict.name} | {services or '–'} | {told or '–'} |"


def page(verdicts, written):
    lines = [HEAD.format(written_http=written[0], written_peer=written[1],
                         lost=max((verdict.lost for verdict in verdicts), default=0)).rstrip("\n")]
    lines += [row(verdict) for verdict in verdicts]
    lines += ["", "## Health of each service, and metrics", "", "| fault | health of | metrics |", "|---|---|---|"]
    lines += [metrics_row(verdict) for verdict in verdicts]
    return "\n".join(lines) + "\n"
