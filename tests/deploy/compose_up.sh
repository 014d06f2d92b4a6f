#!/usr/bin/env bash
# deploy/docker-compose.yml for real, where there is a container engine: builds the images, starts everything with a project
# name and volumes of its own, and checks what docs/deploying.md promises. The base model is taken from models/base
# (models/get_models.sh). What it made goes again, but for the images.
#
# Usage: compose_up.sh [--no-build]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../deploy"

build=(--build)
[ "${1:-}" != --no-build ] || build=(--no-build)
export SCD_LOCAL_MODELS=../models/base SCD_CONSUMER_PORT=17071
prompt="Context: The lighthouse on the cape was built in 1871 by the engineer Ada Brandt, who learned her trade in the old town. \
Question: Who built the lighthouse? Answer:"

command=(docker-compose)
command -v docker-compose > /dev/null || command=(docker compose)
compose() { "${command[@]}" --project-name scd-compose-test "$@"; }
# fails WORDS COMMAND...: the command must fail.
fails() { local words=$1; shift; ! "$@" > /dev/null 2>&1 || die "$words"; }
die() { echo "compose_up: $*" >&2; compose logs --tail 20 >&2; exit 1; }
container() { docker ps --all --quiet --filter label=com.docker.compose.project=scd-compose-test \
  --filter "label=com.docker.compose.service=$1" --filter label=com.docker.compose.oneoff=False; }
# outside COMMAND...: a probe from a container that is in the outer network alone
outside() { docker run --rm --network scd-compose-test_outside --entrypoint scd-health \
  "$(docker inspect --format '{{.Config.Image}}' "$(container producer)")" "$@"; }

trap 'compose down --volumes > /dev/null 2>&1' EXIT
SECONDS=0
compose up --detach "${build[@]}"
compose logs init | tail -15
echo "== up after $SECONDS s"

for name in producer consumer; do
  id=$(container "$name")
  for _ in $(seq 60); do
    [ "$(docker inspect --format '{{.State.Health.Status}}' "$id")" = healthy ] && break
    sleep 1
  done
  [ "$(docker inspect --format '{{.State.Health.Status}}' "$id")" = healthy ] || die "$name is not healthy"
  [ "$(docker exec "$id" id -u)" = 10001 ] || die "$name does not run as user 10001"
  fails "$name can write to its root file system" docker exec "$id" touch /written
  fails "$name can write to the models" docker exec "$id" touch /models/written
  fails "$name can write to its configuration" docker exec "$id" touch /etc/scd/written
done
address=$(docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$(container producer)")
outside consumer:7071 || die "the consumer is not reachable from outside"
fails "the producer's name is known outside" outside producer:7070
fails "the producer is reachable from outside" outside "$address:7070"
[ -z "$(docker port "$(container producer)")" ] || die "the producer has a port"

answer=$(compose run --rm client generate --prompt "$prompt" --policy require --max-tokens 16 2>&1)
echo "$answer"
grep -q Brandt <<< "$answer" || die "the answer does not name the engineer"
grep -q '^mode  *fused' <<< "$answer" || die "it did not come through the codes"

SECONDS=0
compose restart producer > /dev/null 2>&1
compose up --detach --no-build > /dev/null 2>&1
[ "$SECONDS" -lt 120 ] || die "a second start took $SECONDS s"
compose logs init | grep -q 'bundle: is there' || die "the second start fitted the bundle again"
echo "== all is as docs/deploying.md says"
