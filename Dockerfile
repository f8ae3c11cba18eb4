# The README's two commands in a container:
#     docker build -t epsilometer . && docker run --rm -v "$PWD/reports:/epsilometer/reports" epsilometer
# and `docker run --rm epsilometer test`. The user inside has number 1000, and must be able to write to reports/.
FROM python:3.11-slim@sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff
RUN apt-get update && apt-get install --yes --no-install-recommends git make && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 epsilometer && install --directory --owner epsilometer /epsilometer
USER epsilometer
WORKDIR /epsilometer
COPY --chown=epsilometer . .
RUN make setup-test
ENTRYPOINT ["make"]
CMD ["audit"]
