# One image for every part: web and worker processes, migrations, commands. The role is a setting.
#
#   docker build -t mailagent .
#   export DATABASE_URL=postgresql+psycopg://mailagent:PASSWORD@db.shop.example/mailagent
#   docker run --env-file .env -e DATABASE_URL -e MAILAGENT_ROLE=web -p 8000:8000 mailagent           web
#   docker run --env-file .env -e DATABASE_URL -e MAILAGENT_ROLE=worker mailagent flask worker        worker
#   docker run --env-file .env -e DATABASE_URL mailagent alembic upgrade head                         migrations

ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
# Extras of pyproject.toml. `console` has a licence of its own; --build-arg EXTRAS="stripe otel" leaves it out.
ARG EXTRAS="stripe console otel"
WORKDIR /app
COPY requirements.txt pyproject.toml ./
RUN python -m venv --without-pip /venv \
    && python -c "import sys, tomllib; found = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; print(*(line for name in sys.argv[1:] for line in found[name]), sep='\n')" ${EXTRAS} > /tmp/extras.txt \
    && pip --python /venv/bin/python install --no-cache-dir -r requirements.txt \
    && pip --python /venv/bin/python install --no-cache-dir -r /tmp/extras.txt
# What is sent here at all is listed in .dockerignore.
COPY . .
# The last stage writes no bytecode: without this every start would compile the app anew.
RUN /venv/bin/python -m compileall -q --invalidation-mode unchecked-hash mailagent migrations wsgi.py

FROM ${PYTHON}
RUN groupadd --gid 10001 mailagent \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin mailagent
COPY --from=build /venv /venv
COPY --from=build /app /app
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MAILAGENT_ENV=production \
    WORKER_BEAT_FILE=/tmp/mailagent-beat
WORKDIR /app
# By number, so that a platform can tell that it is not root.
USER 10001:10001
EXPOSE 8000
# Let steps at work finish: the platform should wait 45 seconds before it kills.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["python", "-m", "mailagent.healthcheck"]
CMD ["gunicorn", "-c", "python:mailagent.serving", "wsgi:app", "--bind", "0.0.0.0:8000", "--worker-tmp-dir", "/dev/shm"]
