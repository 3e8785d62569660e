# Patroni and etcd as Debian has them, on the PostgreSQL of compose.yaml, for cluster.yaml:
#
#   docker build -f compose/patroni.Dockerfile -t mimeo-patroni compose
ARG POSTGRES_IMAGE=postgres:17-bookworm

FROM ${POSTGRES_IMAGE}
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends patroni python3-etcd etcd-server etcd-client \
    && rm -rf /var/lib/apt/lists/* /var/lib/etcd
COPY container/patroni-entry container/patroni-held /usr/local/bin/
USER postgres
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT []
CMD ["patroni-entry"]
