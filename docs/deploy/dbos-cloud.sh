#!/bin/sh
# dbos-config.yaml runs all commands through this script: dbos-cloud.sh COMMAND ARGUMENTS.
#
# On DBOS Cloud it sets the variables that the app reads elsewhere. It removes DBOS__CLOUD, because with it the dbos
# package would use a new application version for each deployment, and runs that wait for managers would stay
# with the old one (docs/decisions/0010).
set -eu
if [ "${DBOS__CLOUD:-}" = true ]; then
  export DATABASE_URL="postgresql+psycopg://${DBOS_SYSTEM_DATABASE_URL#*://}"
  export WORKER_ID="${DBOS__VMID:-}"
  export PORT="${PORT:-8000}"
  unset DBOS__CLOUD DBOS__APPVERSION DBOS__VMID
fi
exec "$@"
