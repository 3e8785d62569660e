# Prometheus and Alertmanager as Debian has them, for where the official images cannot be fetched:
#
#   docker build -f compose/monitoring.Dockerfile --target prometheus -t mimeo-prometheus compose
#   docker build -f compose/monitoring.Dockerfile --target alertmanager -t mimeo-alertmanager compose
#   PROMETHEUS_IMAGE=mimeo-prometheus ALERTMANAGER_IMAGE=mimeo-alertmanager docker-compose … up
ARG RUNTIME_IMAGE=debian:bookworm-slim

FROM ${RUNTIME_IMAGE} AS debian
RUN apt-get update \
    && apt-get install -y --no-install-recommends prometheus prometheus-alertmanager wget \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o prometheus -g prometheus /prometheus /alertmanager
USER prometheus

FROM debian AS alertmanager
VOLUME /alertmanager
ENTRYPOINT ["prometheus-alertmanager"]

FROM debian AS prometheus
VOLUME /prometheus
ENTRYPOINT ["prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
