#!/usr/bin/env bash
# Builds the Debian package from the folder of an archive, then installs, upgrades, removes and purges it. The test runs
# in a view of this machine's root folder that keeps all changes in memory, so the machine does not change.
#
# Usage: deb.sh FOLDER GLIBC
# Exits with 77 if the machine lacks what the test needs.
set -euo pipefail

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

skip() {
  echo "SKIPPED: the test of the Debian package, which needs $*" >&2
  exit 77
}

# Runs the command of the key `$1` in the unit, as systemd does: as the user of the unit, in its folder, with its
# environment. `inside` calls the function in another process.
# shellcheck disable=SC2329
of_unit() {
  local unit=/usr/lib/systemd/system/tremor@.service command user
  command=$(sed -n "s/^$1=//p" "$unit" | sed 's/%i/example/g')
  user=$(sed -n 's/^User=//p' "$unit")
  install -d -o "$user" -g "$user" /var/lib/tremor/example
  cd /var/lib/tremor/example
  # The command is a list of words.
  # shellcheck disable=SC2086
  exec env -i PATH=/usr/bin:/bin setpriv --reuid="$user" --regid="$user" --clear-groups $command
}

files() {
  find /usr /etc /var/lib -path /var/lib/dpkg -prune -o ! -name '*-' ! -name .pwd.lock -print | sort
}

# The part of the test that runs in the view. Its folder `/deb` contains the packages.
inside() {
  export DEBIAN_FRONTEND=noninteractive LC_ALL=C
  files > /deb/before
  dpkg --install /deb/first.deb > /deb/log 2>&1 || fail "cannot install: $(cat /deb/log)"
  dpkg --verify tremor || fail "files differ from those of the package"
  getent passwd tremor > /dev/null || fail "there is no user"
  [ "$(stat -c %U:%G:%a /var/lib/tremor)" = tremor:tremor:750 ] || fail "permissions of the state"
  [ "$(stat -c %U:%G:%a /etc/tremor)" = root:tremor:750 ] || fail "permissions of the flows"
  env -i tremor plugin list | grep -q metronome || fail "the program does not find its plugins"
  if command -v systemd-analyze > /dev/null; then
    warnings=$(systemd-analyze verify --man=no --recursive-errors=no tremor@example.service 2>&1) || true
    [ -z "$warnings" ] || fail "systemd-analyze: $warnings"
  else
    echo "SKIPPED: systemd-analyze verify, which is not installed" >&2
  fi

  # `bash -c` runs the functions in processes of their own, because they end with `exec`.
  export -f of_unit
  bash -c 'of_unit ExecStartPre' > /deb/log 2>&1 || fail "ExecStartPre: $(cat /deb/log)"
  bash -c 'of_unit ExecStart' > /deb/out 2> /deb/log &
  for _ in $(seq 600); do
    [ ! -s /deb/out ] || break
    kill -0 $! 2> /dev/null || fail "ExecStart has ended: $(cat /deb/log)"
    sleep 0.05
  done
  [ -s /deb/out ] || fail "ExecStart has written no event"
  [ "$(stat -c %U "/proc/$!")" = tremor ] || fail "ExecStart does not run as the user of the unit"
  kill -TERM $!
  wait $! || fail "ExecStart ended with status $?: $(cat /deb/log)"

  echo '# changed' >> /etc/tremor/example.yaml
  echo '# own' > /etc/tremor/own.yaml
  chmod 0700 /etc/tremor
  echo position > /var/lib/tremor/example/checkpoint
  dpkg --install /deb/second.deb > /deb/log 2>&1 || fail "cannot upgrade: $(cat /deb/log)"
  [ "$(dpkg-query --show --showformat='${Version}' tremor)" = 2 ] || fail "the version is not the new one"
  grep -q changed /etc/tremor/example.yaml || fail "the upgrade has replaced a changed flow"
  [ -e /etc/tremor/own.yaml ] || fail "the upgrade has removed a flow"
  [ "$(stat -c %a /etc/tremor)" = 700 ] || fail "the upgrade has changed permissions"
  grep -q position /var/lib/tremor/example/checkpoint || fail "the upgrade has removed state"

  dpkg --remove tremor > /deb/log 2>&1 || fail "cannot remove: $(cat /deb/log)"
  [ ! -e /usr/bin/tremor ] || fail "the program was not removed"
  grep -q changed /etc/tremor/example.yaml || fail "the removal has removed a flow"
  grep -q position /var/lib/tremor/example/checkpoint || fail "the removal has removed state"

  mkdir -p /etc/systemd/system/multi-user.target.wants
  ln -s /usr/lib/systemd/system/tremor@.service /etc/systemd/system/multi-user.target.wants/tremor@a.service
  dpkg --purge tremor > /deb/log 2>&1 || fail "cannot purge: $(cat /deb/log)"
  ! getent passwd tremor > /dev/null || fail "the user was not removed"
  ! getent group tremor > /dev/null || fail "the group was not removed"
  rm /etc/tremor/own.yaml
  rmdir /etc/tremor || fail "the purge has left files in /etc/tremor"
  files | diff /deb/before - || fail "the purge has left files, or removed some"
}

if [ "$1" = --inside ]; then
  inside
  exit
fi

folder=$1 glibc=$2
deb=$(dirname "${BASH_SOURCE[0]}")/../deb.sh
for program in dpkg dpkg-deb setpriv unshare; do
  command -v "$program" > /dev/null || skip "the program $program"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export COMPRESSION=none
"$deb" "$folder" 1 "$(uname -m)" "$glibc" "$work/first.deb"
touch "$folder/bin/tremor"
"$deb" "$folder" 1 "$(uname -m)" "$glibc" "$work/again.deb"
cmp "$work/first.deb" "$work/again.deb" || fail "equal files give different packages"
rm "$work/again.deb"
"$deb" "$folder" 2 "$(uname -m)" "$glibc" "$work/second.deb"
[ "$(dpkg-deb --field "$work/first.deb" Package)" = tremor ] || fail "the package has another name"

# Mounts the view and runs this script in it.
# shellcheck disable=SC2016
view='
  set -e
  mount -t tmpfs tmpfs "$1/view"
  mkdir "$1/view/upper" "$1/view/work" "$1/view/root"
  mount -t overlay overlay -o "lowerdir=/,upperdir=$1/view/upper,workdir=$1/view/work" "$1/view/root" || exit 77
  mount -t proc proc "$1/view/root/proc"
  mount --bind /dev "$1/view/root/dev"
  mount -t tmpfs tmpfs "$1/view/root/run"
  mkdir "$1/view/root/deb"
  mv "$1/first.deb" "$1/second.deb" "$1/view/root/deb"
  cp "$2" "$1/view/root/deb/test"
  exec chroot "$1/view/root" bash /deb/test --inside
'
mkdir "$work/view"
[ "$(id -u)" = 0 ] || skip "root"
status=0
unshare --mount --pid --fork sh -c "$view" view "$work" "${BASH_SOURCE[0]}" || status=$?
[ "$status" != 77 ] || skip "mounts of the type overlay"
exit "$status"
