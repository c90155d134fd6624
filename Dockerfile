# docker build -t pillarbox .
FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /venv
# The pinned requirements first: they change less often than the source.
COPY requirements/run.txt requirements/run.txt
RUN /venv/bin/pip install --no-cache-dir --require-hashes -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /venv/bin/pip install --no-cache-dir --no-deps .

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/pillarbox --create-home pillarbox
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PILLARBOX_DATABASE=sqlite:////var/lib/pillarbox/pillarbox.db
USER pillarbox
WORKDIR /var/lib/pillarbox
VOLUME /var/lib/pillarbox
EXPOSE 8025
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8025/healthz', timeout=4)"]
ENTRYPOINT ["pillarbox"]
# Without PILLARBOX_ADMIN_KEY it refuses to listen beyond loopback.
CMD ["serve", "--host", "0.0.0.0", "--port", "8025"]
