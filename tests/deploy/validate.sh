#!/bin/sh
# What others' tools say of compose.yaml, the units and the manifests: sh tests/deploy/validate.sh
# Not one of the tests: it installs two packages from PyPI into a folder that is gone afterwards. systemd-analyze
# and kubectl have to be there; what is not is said and left out. CRD_SCHEMAS: where the schemas of kinds are that
# are not Kubernetes' own, an address or a folder laid out like datreeio/CRDs-catalog.
# Exits with 1 if anything was found.
set -u
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
found=0
schemas=${CRD_SCHEMAS:-https://raw.githubusercontent.com/datreeio/CRDs-catalog/main}
say() { printf '\n== %s\n' "$1"; }
try() { "$@" || { found=1; echo "FOUND SOMETHING: $*" >&2; }; }
here() { command -v "$1" >/dev/null || { echo "$1 is not here: left out"; return 1; }; }

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes-validate==1.37.0 check-jsonschema==0.39.0 || exit 1

say "compose.yaml, by the schema of the Compose Specification"
try "$work/venv/bin/check-jsonschema" --builtin-schema vendor.compose-spec compose.yaml

say "units, by systemd-analyze"
if here systemd-analyze; then
  cp -r docs/deploy/systemd "$work/units"
  # It looks for the programs, and those are where the units are installed.
  sed -i "s|^ExecStart=/opt/mailagent/.venv/bin/[a-z]*|ExecStart=$(command -v true)|" "$work"/units/*.service
  for name in all migrate reconcile web worker@1; do
    try env SYSTEMD_UNIT_PATH="$work/units:" systemd-analyze verify --man=no "mailagent-$name.service"
  done
  # Each by itself with the drop-in written into it, for files are looked at without theirs.
  for unit in "$work"/units/*.service; do
    sed '/^\[Service\]/d' "$work/units/mailagent-.service.d/hardening.conf" > "$work/settings"
    sed "/^\[Service\]/r $work/settings" "$unit" > "$work/$(basename "$unit")"
    try systemd-analyze security --offline=true --threshold=20 --no-pager "$work/$(basename "$unit")" > "$work/said"
    tail -n 1 "$work/said"
  done
fi

say "manifests, by kubectl kustomize and kubernetes-validate"
if here kubectl; then
  for part in kubernetes kubernetes/autoscaling; do
    try kubectl kustomize "docs/deploy/$part" > "$work/$(basename "$part").yaml"
  done
  for version in 1.31 1.37; do
    try "$work/venv/bin/kubernetes-validate" -k "$version" --strict "$work/kubernetes.yaml" "$work/autoscaling.yaml" \
      docs/deploy/kubernetes/migration.yaml docs/deploy/kubernetes/reconcile.yaml docs/deploy/kubernetes/secret.example.yaml
  done
  # ScaledObject and PodMonitor are no kinds of Kubernetes' own, hence the warnings.
fi

say "ScaledObject and PodMonitor, by the schemas of KEDA and of the Prometheus operator in $schemas"
of_operators() {
  case $schemas in http*) curl --silent --fail --head --max-time 10 --output /dev/null "$schemas/$1" ;; *) [ -f "$schemas/$1" ] ;; esac \
    || { echo "no $1 there: left out"; return; }
  try "$work/venv/bin/check-jsonschema" --schemafile "$schemas/$1" "docs/deploy/kubernetes/autoscaling/$2"
}
of_operators keda.sh/scaledobject_v1alpha1.json worker.yaml
of_operators monitoring.coreos.com/podmonitor_v1.json podmonitor.yaml

say "$([ "$found" = 0 ] && echo 'nothing was found' || echo 'something was found')"
exit "$found"
