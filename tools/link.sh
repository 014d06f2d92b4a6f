#!/usr/bin/env bash
# Runs a producer and a consumer in two network namespaces joined by a link of a given rate (a token bucket, tc tbf, in
# both directions), and a command beside the consumer. Everything is taken down again however it ends.
#
# Usage: tools/link.sh --rate RATE --producer CMD --consumer CMD [options] -- COMMAND [ARGUMENT ...]
#   --rate RATE       of the link, as tc writes it: 100mbit, 1gbit, 10gbit
#   --producer CMD    runs in the producer's namespace, --consumer CMD in the consumer's, both with bash, in the background
#   --ready CMD       tried in the consumer's namespace until it succeeds, before COMMAND runs; repeatable, in order
#   --timeout S       seconds that all --ready together may take (default 120)
#   --logs DIR        keep the output of both there (producer.log, consumer.log); else it is shown if they fail
#   COMMAND           runs in the consumer's namespace; its exit status is that of this script
#
# Addresses: the producer's namespace has 10.77.0.1, the consumer's 10.77.0.2, and each has its own loopback. In all of
# these commands {producer_ip} and {consumer_ip} stand for them; SCD_PRODUCER_IP and SCD_CONSUMER_IP are set too. The
# consumer's own service needs no link: COMMAND reaches it through 127.0.0.1.
#
# Example:
#   tools/link.sh --rate 100mbit \
#     --producer 'build/bin/scd-producer --config configs/producer.yaml --set server.listen={producer_ip}:7070' \
#     --consumer 'build/bin/scd-consumer --config configs/consumer.yaml --set producer.address={producer_ip}:7070' \
#     --ready 'build/bin/scd-client health' -- build/bin/scd-client compare --prompt 'Once upon a time'
#
# Exit status: COMMAND's; 2 for a wrong command line; 70 where a daemon ended or was not ready in time; 77 where this
# machine cannot make the link (not root, no iproute2, or namespaces are not allowed).
set -euo pipefail

producer_ip=10.77.0.1
consumer_ip=10.77.0.2
prefix=30

usage_error() { echo "link: $* (see --help)" >&2; exit 2; }
cannot() { echo "link: $*" >&2; exit 77; }

rate='' producer='' consumer='' logs='' timeout=120
ready=()
while [ $# -gt 0 ]; do
  case "$1" in
    --rate) rate=${2:?--rate needs a rate}; shift 2 ;;
    --producer) producer=${2:?--producer needs a command}; shift 2 ;;
    --consumer) consumer=${2:?--consumer needs a command}; shift 2 ;;
    --ready) ready+=("${2:?--ready needs a command}"); shift 2 ;;
    --timeout) timeout=${2:?--timeout needs seconds}; shift 2 ;;
    --logs) logs=${2:?--logs needs a folder}; shift 2 ;;
    --) shift; break ;;
    -h|--help) sed -n '2,27s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) usage_error "unknown argument '$1'" ;;
  esac
done
[ -n "$rate" ] || usage_error "--rate is missing"
[ -n "$producer" ] || usage_error "--producer is missing"
[ -n "$consumer" ] || usage_error "--consumer is missing"
[ $# -gt 0 ] || usage_error "no command after --"
[[ $timeout =~ ^[0-9]+$ ]] || usage_error "--timeout takes whole seconds, not '$timeout'"
[[ $rate =~ ^([0-9]+)(kbit|mbit|gbit)$ ]] || usage_error "--rate takes a whole number of kbit, mbit or gbit, not '$rate'"
case "${BASH_REMATCH[2]}" in kbit) unit=1000 ;; mbit) unit=1000000 ;; gbit) unit=1000000000 ;; esac
bytes_per_ms=$((BASH_REMATCH[1] * unit / 8000))
# The bucket holds what the link carries in a millisecond, but at least ten frames: a burst goes through at once.
burst=$((bytes_per_ms > 15140 ? bytes_per_ms : 15140))

PATH=$PATH:/usr/sbin:/sbin
command -v ip > /dev/null && command -v tc > /dev/null || cannot "ip or tc is missing (apt-get install iproute2)"
[ "$(id -u)" -eq 0 ] || cannot "making network namespaces needs root"

scratch=$(mktemp -d)
producer_ns=scd-link-$$-producer
consumer_ns=scd-link-$$-consumer
made=()  # namespaces
[ -n "$logs" ] || logs=$scratch
mkdir -p "$logs"

pids_left() { local ns; for ns in "${made[@]}"; do ip netns pids "$ns" 2> /dev/null || true; done; }

# Ends what runs in our namespaces, then removes them; the link goes with them.
tear_down() {
  local status=$? pids
  trap - EXIT INT TERM HUP
  set +e
  pids=$(pids_left)
  [ -z "$pids" ] || kill -TERM $pids 2> /dev/null
  for _ in $(seq 100); do
    [ -n "$(pids_left)" ] || break
    sleep 0.1
  done
  pids=$(pids_left)
  [ -z "$pids" ] || kill -KILL $pids 2> /dev/null
  for ns in "${made[@]}"; do [ ! -e "/run/netns/$ns" ] || ip netns del "$ns"; done
  wait 2> /dev/null
  rm -rf "$scratch"
  exit "$status"
}
trap tear_down EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

add_namespace() {
  local why
  made+=("$1")
  why=$(ip netns add "$1" 2>&1) || cannot "cannot make a network namespace: $why"
  ip -n "$1" link set lo up
}
attach() {  # NAMESPACE DEVICE ADDRESS
  ip -n "$1" addr add "$3/$prefix" dev "$2"
  ip -n "$1" link set "$2" up
  local why
  why=$(tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst "$burst" latency 50ms 2>&1) ||
    cannot "cannot put a token bucket on the link: $why"
}
add_namespace "$producer_ns"
add_namespace "$consumer_ns"
why=$(ip link add scd-link netns "$producer_ns" type veth peer name scd-link netns "$consumer_ns" 2>&1) ||
  cannot "cannot make a veth pair: $why"
attach "$producer_ns" scd-link "$producer_ip"
attach "$consumer_ns" scd-link "$consumer_ip"

export SCD_PRODUCER_IP=$producer_ip SCD_CONSUMER_IP=$consumer_ip
filled() { local text=${1//\{producer_ip\}/$producer_ip}; printf '%s' "${text//\{consumer_ip\}/$consumer_ip}"; }
start() {  # NAMESPACE CMD LOG
  ip netns exec "$1" bash -c "$(filled "$2")" > "$3" 2>&1 < /dev/null &
}
start "$producer_ns" "$producer" "$logs/producer.log"
producer_pid=$!
start "$consumer_ns" "$consumer" "$logs/consumer.log"
consumer_pid=$!

fail() {
  echo "link: $*" >&2
  local name
  for name in producer consumer; do
    echo "--- last lines of the $name:" >&2
    tail -n 15 "$logs/$name.log" >&2
  done
  exit 70
}
check_alive() {
  [ -d "/proc/$producer_pid" ] || fail "the producer has ended"
  [ -d "/proc/$consumer_pid" ] || fail "the consumer has ended"
}
deadline=$((SECONDS + timeout))
for check in "${ready[@]}"; do
  until ip netns exec "$consumer_ns" bash -c "$(filled "$check")" > "$scratch/ready.log" 2>&1 < /dev/null; do
    check_alive
    [ "$SECONDS" -lt "$deadline" ] || fail "not ready after $timeout s: $check: $(tail -n 1 "$scratch/ready.log")"
    sleep 0.1
  done
done
check_alive

command=()
for argument in "$@"; do command+=("$(filled "$argument")"); done
# In the background, so that a signal to this script is answered at once.
status=0
ip netns exec "$consumer_ns" "${command[@]}" <&0 &
wait $! || status=$?
[ "$status" -eq 0 ] || check_alive
exit "$status"
