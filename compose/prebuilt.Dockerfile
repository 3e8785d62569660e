# The `services` image from binaries that were built outside: no Swift image, no network.
#
#   docker build -f compose/Dockerfile --target runtime -t mimeo-runtime .
#   compose/stage .build/release FOLDER
#   docker build -f compose/prebuilt.Dockerfile -t mimeo-services FOLDER
ARG BASE_IMAGE=mimeo-runtime

FROM ${BASE_IMAGE}
COPY . /opt/mimeo
