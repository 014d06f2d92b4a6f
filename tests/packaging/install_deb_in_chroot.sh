#!/usr/bin/env bash
# Installs the Debian package into a fresh minimal system and shows what it does there: as in a container first (no systemd),
# then booted, with the units as they are shipped. Needs root, the network, debootstrap and systemd-container (systemd-nspawn),
# and is run by hand.
#
# Usage: install_deb_in_chroot.sh --deb FILE --model FILE --bundle FOLDER [--work FOLDER] [--keep]
#   --deb FILE       scd_VERSION-1_ARCH.deb, for the release below
#   --model FILE     the base model of the shipped pair (models/base/*.gguf)
#   --bundle FOLDER  a bundle of the shipped pair
#   --work FOLDER    where the minimal system and downloaded packages stay for a next run (default /tmp/scd-chroot)
#   --keep           leave the installed system in the work folder
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
release=bookworm

die() { echo "install_deb_in_chroot: $*" >&2; exit 1; }
say() { printf '\n== %s\n' "$*"; }

deb="" model="" bundle="" work=/tmp/scd-chroot keep=no
while [ $# -gt 0 ]; do
  case "$1" in
    --deb) deb=${2:?}; shift 2 ;;
    --model) model=${2:?}; shift 2 ;;
    --bundle) bundle=${2:?}; shift 2 ;;
    --work) work=${2:?}; shift 2 ;;
    --keep) keep=yes; shift ;;
    -h|--help) sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) die "unknown argument '$1' (see --help)" ;;
  esac
done
[ -f "$deb" ] && [ -f "$model" ] && [ -f "$bundle/manifest.json" ] || die "--deb, --model and --bundle are needed (see --help)"
[ "$(id -u)" -eq 0 ] || die "run this as root"
# Mounts of its own, which end with this process; and a /run that systemd-nspawn accepts.
if [ -z "${SCD_CHROOT_INNER:-}" ]; then
  exec env SCD_CHROOT_INNER=1 unshare --mount --propagation private "${BASH_SOURCE[0]}" --deb "$deb" --model "$model" \
    --bundle "$bundle" --work "$work" $([ "$keep" = no ] || echo --keep)
fi
mount -t tmpfs tmpfs /run

mkdir -p "$work/archives/partial"
if [ ! -f "$work/minbase.tar" ]; then
  say "debootstrap"
  rm -rf "$work/minbase"
  debootstrap --variant=minbase "$release" "$work/minbase" > "$work/debootstrap.log" || { tail "$work/debootstrap.log"; exit 1; }
  tar -C "$work/minbase" -cf "$work/minbase.tar.part" .
  mv "$work/minbase.tar.part" "$work/minbase.tar"
  rm -rf "$work/minbase"
fi
root="$work/root"
rm -rf "$root"
mkdir "$root"
tar -C "$root" -xf "$work/minbase.tar"
resolv=$(readlink -f /etc/resolv.conf) || true
[ ! -s "$resolv" ] || cp "$resolv" "$root/etc/resolv.conf"
mount --bind "$work/archives" "$root/var/cache/apt/archives"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
in_root() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
apt() { in_root apt-get -qq -o Dpkg::Use-Pty=0 "$@" > "$work/apt.log" 2>&1 || { tail -20 "$work/apt.log"; die "apt-get $* failed"; }; }
# Every file of the system but those of packaging itself, logs and caches.
snapshot() {
  (cd "$root" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/cache -o -path ./var/log -o -path ./proc \
    -o -path ./dev -o -path ./sys -o -path ./run -o -path ./tmp -o -path ./root -o -path ./var/lib/systemd \) -prune -o -print) | sort
}
# Backups that useradd and apt leave, and what systemd writes when it boots.
other='^\./etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|^\./etc/(\.pwd\.lock|ld\.so\.cache|machine-id|\.updated|resolv\.conf)$|^\./var/(\.updated|tmp/)|^\./etc/ssl'
install_deb() {
  cp "$deb" "$root/root/scd.deb"
  # dpkg does not fetch dependencies and says so; apt then completes the installation.
  if in_root dpkg -i /root/scd.deb > "$work/dpkg.log" 2>&1; then die "dpkg -i found all dependencies in a minimal system"; fi
  grep -q 'dependency problems' "$work/dpkg.log" || { cat "$work/dpkg.log"; die "dpkg -i failed"; }
  apt -f install -y --no-install-recommends
  in_root dpkg -s scd | grep -E '^(Status|Version)'
}
give_data() {
  install -m 644 "$model" "$root/tmp/model.gguf"
  in_root runuser -u scd -- /usr/share/scd/models/get_models.sh --from /tmp/model.gguf --to /var/lib/scd/models
  for config in quickstart_calibrate calibrate; do
    in_root runuser -u scd -- scd-calibrate --config "/etc/scd/$config.yaml" --check
  done
  cp -r "$bundle" "$root/var/lib/scd/bundles/smollm2-135m-expert"
  in_root chown -R scd:scd /var/lib/scd/bundles
  rm "$root/tmp/model.gguf"
}

say "without systemd, as in a container"
apt update
snapshot > "$work/before.txt"
install_deb
in_root id scd
for program in scd-producer scd-consumer scd-calibrate scd-client scd-health; do in_root "$program" --version; done
# What dpkg ships is right on disk; md5sums cover every file but configurations.
in_root dpkg -V scd
give_data
in_root scd-producer --config /etc/scd/producer.yaml --check
in_root scd-consumer --config /etc/scd/consumer.yaml --check
say "purge with data"
in_root dpkg -P scd
apt autoremove --purge -y
snapshot > "$work/after.txt"
left=$(comm -13 "$work/before.txt" "$work/after.txt" | grep -vE "$other" || true)
printf '%s\n' "$left"
[ -z "$(grep -v '^\./var/lib/scd\(/\|$\)' <<< "$left")" ] || die "purge left more than data"
grep -q './var/lib/scd/bundles/smollm2-135m-expert/manifest.json' <<< "$left" || die "purge took data"
in_root id scd > /dev/null || die "the data has no owner any more"
rm -rf "${root:?}/var/lib/scd"
in_root userdel scd

say "with systemd: units"
apt install -y --no-install-recommends systemd systemd-sysv dbus python3 man-db procps
snapshot > "$work/before.txt"
install_deb
for unit in scd-producer scd-consumer; do
  found=$(in_root systemd-analyze verify "/usr/lib/systemd/system/$unit.service" 2>&1) || die "systemd-analyze verify: $found"
  [ -z "$found" ] || die "systemd-analyze verify: $found"
  in_root systemd-analyze security --offline=true --threshold=20 --no-pager "/usr/lib/systemd/system/$unit.service" | tail -1
done
in_root man -w scd-producer
[ "$(in_root systemctl is-enabled scd-producer.service scd-consumer.service | sort -u)" = disabled ] || die "units are enabled"
give_data

say "booted"
install -m 755 "$here/check_booted_system.sh" "$root/root/check.sh"
cat > "$root/etc/systemd/system/scd-check.service" << 'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c '/root/check.sh > /root/check.log 2>&1; echo $? > /root/check.rc; systemctl poweroff --no-block'
TimeoutStartSec=900
UNIT
mkdir -p "$root/etc/systemd/system/default.target.wants"
ln -s ../scd-check.service "$root/etc/systemd/system/default.target.wants/scd-check.service"
umount -R "$root/dev" "$root/proc"
# Without a service manager of its own to ask, systemd-nspawn leaves two empty control groups in each hierarchy.
control_groups() { find /sys/fs/cgroup -maxdepth 2 -type d \( -name payload -o -name supervisor \) | sort; }
groups_before=$(control_groups)
systemd-nspawn --quiet --directory="$root" --boot --register=no --keep-unit --private-network > "$work/boot.log" 2>&1 < /dev/null || {
  tail -20 "$work/boot.log"; die "the system did not boot"; }
for group in $(comm -13 <(printf '%s\n' "$groups_before") <(control_groups)); do
  find "$group" -depth -type d -exec rmdir {} \; 2> /dev/null || true
done
cat "$root/root/check.log"
[ "$(cat "$root/root/check.rc")" = 0 ] || die "the check in the booted system failed"
rm -r "$root/etc/systemd/system/scd-check.service" "$root/etc/systemd/system/default.target.wants"
mount -t proc proc "$root/proc"

say "what is left"
apt autoremove --purge -y
snapshot > "$work/after.txt"
left=$(comm -13 "$work/before.txt" "$work/after.txt" | grep -vE "$other" || true)
printf '%s\n' "$left"
[ -z "$(grep -v '^\./var/lib/scd\(/\|$\)' <<< "$left")" ] || die "removal and purge left more than data"
umount "$root/proc" "$root/var/cache/apt/archives"
[ "$keep" = yes ] || rm -rf "$root"
say "the package installs, serves, and leaves nothing but data"
