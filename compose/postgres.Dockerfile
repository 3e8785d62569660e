# PostgreSQL as Debian has it, for where the official image cannot be fetched: takes the same settings from compose.yaml.
#
#   docker build -f compose/postgres.Dockerfile -t mimeo-postgres compose
#   POSTGRES_IMAGE=mimeo-postgres docker-compose -f compose/compose.yaml up
ARG RUNTIME_IMAGE=debian:bookworm-slim

FROM ${RUNTIME_IMAGE}
# Debian would make a cluster while it installs: that one is removed, the volume gets its own.
RUN apt-get update \
    && apt-get install -y --no-install-recommends postgresql \
    && rm -rf /var/lib/apt/lists/* /var/lib/postgresql /etc/postgresql/* \
    && install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data \
    && ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/ 2>/dev/null || true
COPY container/postgres /usr/local/bin/postgres-entry
USER postgres
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
CMD ["postgres-entry"]
