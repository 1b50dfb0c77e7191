#!/bin/sh
# What dbos-config.yaml runs everything with: dbos-cloud.sh COMMAND ARGUMENTS.
#
# On DBOS Cloud it tells the app what it is told elsewhere by the environment. With DBOS__CLOUD set, the dbos
# package would name its own application version, a new one for each deployment, and runs that wait for
# managers would be left to the last one (docs/decisions/0010). Without it the app is as on any other machine.
set -eu
if [ "${DBOS__CLOUD:-}" = true ]; then
  export DATABASE_URL="postgresql+psycopg://${DBOS_SYSTEM_DATABASE_URL#*://}"
  export WORKER_ID="${DBOS__VMID:-}"
  export PORT="${PORT:-8000}"
  unset DBOS__CLOUD DBOS__APPVERSION DBOS__VMID
fi
exec "$@"
