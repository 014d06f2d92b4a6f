#!/usr/bin/env bash
# Runs in the booted system of install_deb_in_chroot.sh, as root: the installed units serve, are confined, stop in order,
# come back after a crash, survive an upgrade, and go with the package.
set -euo pipefail

die() { echo "FAILED: $*"; journalctl --no-pager -n 40 -u scd-producer -u scd-consumer || true; exit 1; }
say() { printf -- '-- %s\n' "$*"; }
state() { systemctl show --value --property="$2" "$1.service"; }
units="scd-producer.service scd-consumer.service"

say "start: systemctl returns when the daemons serve"
SECONDS=0
systemctl enable --now $units 2>&1
echo "active after $SECONDS s: $(systemctl is-active $units | tr '\n' ' ')"
scd-health 127.0.0.1:7070 && scd-health 127.0.0.1:7071 || die "health"
for daemon in producer consumer; do
  pid=$(state "scd-$daemon" MainPID)
  [ "$(ps -o user= -p "$pid")" = scd ] || die "scd-$daemon runs as another user"
  echo "scd-$daemon: $(state "scd-$daemon" StatusText); $(grep -E '^(NoNewPrivs|Seccomp|CapEff|CapBnd):' "/proc/$pid/status" | tr '\t\n' ' ;')"
  if nsenter -t "$pid" -m -- touch /var/lib/scd/x 2> /dev/null; then die "scd-$daemon can write to /var/lib/scd"; fi
done

say "a prompt through the codes"
scd-client generate --json --prompt "Context: The tower was built in 1889 by a company of engineers. It is made of iron. Question: When was the tower built? Answer:" \
  --policy require --max-tokens 8 --stop $'\n' > /root/answer.json
python3 - << 'PY'
import json
answer = json.load(open("/root/answer.json"))
report = answer["report"]
assert report["mode"] == "fused" and report["transferred_tokens"] > 0 and answer["text"].strip(), answer
print("answer:", answer["text"].strip(), "|", {k: report[k] for k in ("mode", "prompt_tokens", "transferred_tokens", "received_bytes", "first_token_ms")})
PY

say "stop: a running request ends, within the grace time"
scd-client generate --prompt "The history of the city begins" --max-tokens 120 --ignore-eos --quiet > /root/long.txt 2>&1 &
client=$!
while [ ! -s /root/long.txt ]; do sleep 0.1; kill -0 $client 2> /dev/null || break; done
SECONDS=0
systemctl stop scd-consumer.service
took=$SECONDS
wait $client || die "the request was cut: $(cat /root/long.txt)"
[ "$(state scd-consumer Result)" = success ] || die "stop: $(state scd-consumer Result)"
echo "stopped after $took s, result $(state scd-consumer Result), exit status $(state scd-consumer ExecMainStatus); the request ended whole ($(wc -w < /root/long.txt) words)"
systemctl start scd-consumer.service

say "a crash: systemd starts it again"
old=$(state scd-producer MainPID)
kill -KILL "$old"
for _ in $(seq 100); do [ "$(state scd-producer MainPID)" != "$old" ] && systemctl -q is-active scd-producer && break; sleep 0.2; done
systemctl -q is-active scd-producer || die "the producer stays down"
echo "restarts: $(state scd-producer NRestarts)"
scd-client generate --prompt "The history of the city begins in the year when the first bridge was" --policy require --max-tokens 4 --quiet > /dev/null || die "no answer after the crash"

say "a wrong configuration: one error, no restarts"
cp /etc/scd/consumer.yaml /root/consumer.yaml
echo "no_such_key: 1" >> /etc/scd/consumer.yaml
if systemctl restart scd-consumer.service 2> /dev/null; then die "it started"; fi
sleep 3
[ "$(state scd-consumer ActiveState)" = failed ] && [ "$(state scd-consumer NRestarts)" = 0 ] || die "restarts: $(state scd-consumer NRestarts)"
echo "$(state scd-consumer ActiveState), exit status $(state scd-consumer ExecMainStatus): $(journalctl -o cat --no-pager -u scd-consumer | grep no_such_key | tail -1)"
cp /root/consumer.yaml /etc/scd/consumer.yaml
systemctl start scd-consumer.service

say "upgrade: configuration stays, daemons run the new files"
echo "# edited by the operator" >> /etc/scd/producer.yaml
old=$(state scd-producer MainPID)
dpkg -i /root/scd.deb > /root/dpkg.log 2>&1 || die "$(cat /root/dpkg.log)"
grep -q "edited by the operator" /etc/scd/producer.yaml || die "the edit is gone"
systemctl -q is-active $units || die "not active"
[ "$(state scd-producer MainPID)" != "$old" ] || die "the old process still runs"
scd-health 127.0.0.1:7071 || die "health after the upgrade"
echo "restarted, configuration kept"

say "remove"
dpkg -r scd 2>&1
if pgrep -f '^/usr/bin/scd-' > /dev/null; then die "daemons still run"; fi
left=$(find / -xdev -path /proc -prune -o -path /root -prune -o -path /var/log -prune -o -path /var/cache -prune -o \( -name '*scd*' -o -path '/etc/scd/*' \) -print \
  | grep -v -e '^/var/lib/dpkg/' -e '^/etc/systemd/system/.*scd-check' | sort)
printf '%s\n' "$left"
[ -z "$(grep -vE '^/etc/scd(/|$)|^/var/lib/scd(/|$)' <<< "$left")" ] || die "removal left more than configuration and data"
[ -f /etc/scd/producer.yaml ] && [ -f /var/lib/scd/bundles/smollm2-135m-expert/manifest.json ] || die "removal took too much"

say "purge"
dpkg -P scd 2>&1
[ ! -e /etc/scd ] || die "purge left /etc/scd"
[ -f /var/lib/scd/bundles/smollm2-135m-expert/manifest.json ] && id scd > /dev/null || die "purge took data or its owner"
echo "data and its owner stay: $(du -sh /var/lib/scd | cut -f1), $(stat -c %U /var/lib/scd/bundles)"
