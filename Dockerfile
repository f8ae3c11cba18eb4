# The README's two commands in a container:
#     docker build -t epsilometer . && docker run --rm -v "$PWD/reports:/epsilometer/reports" epsilometer
# and `docker run --rm epsilometer test`.
FROM python:3.11-slim
RUN apt-get update && apt-get install --yes --no-install-recommends git make && rm -rf /var/lib/apt/lists/*
WORKDIR /epsilometer
COPY . .
RUN make setup
ENTRYPOINT ["make"]
CMD ["audit"]
