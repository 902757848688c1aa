# Build stage: a virtual environment with hash-checked packages and Weft itself, compiled, since the user of the run
# stage may write no bytecode beside them: each process would spend half of its start on that.
FROM python:3.11-slim AS build
WORKDIR /src
# For the library that is preloaded into containers with shares of GPUs (docs/shared-gpus.md): gcc alone builds it.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
RUN python -m venv /opt/weft
COPY requirements/ requirements/
RUN /opt/weft/bin/pip install --no-cache-dir --require-hashes -r requirements/uv.txt \
    && /opt/weft/bin/uv pip sync --no-cache --compile-bytecode --python /opt/weft/bin/python --require-hashes \
        requirements/server.txt requirements/uv.txt
COPY . .
RUN /opt/weft/bin/uv pip install --no-cache --compile-bytecode --python /opt/weft/bin/python --no-deps \
        --no-build-isolation . ./weft \
    && /opt/weft/bin/python -m controlplane.enforcer --library /opt/weft/lib/enforcer \
    && install -m 0755 manage.py /opt/weft/manage.py \
    && install -m 0644 uvicorn.json /opt/weft/uvicorn.json

# Run stage: no compiler, no source tree, no root.
FROM python:3.11-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/weft --create-home weft
COPY --from=build /opt/weft /opt/weft
ENV PATH=/opt/weft/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DJANGO_SETTINGS_MODULE=controlplane.settings \
    WEFT_HOME=/var/lib/weft
USER weft
WORKDIR /opt/weft
EXPOSE 8000
CMD ["uvicorn", "controlplane.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--no-access-log", \
     "--http", "controlplane.security.bounded:Bounded", "--timeout-graceful-shutdown", "10", "--log-config", "uvicorn.json"]
