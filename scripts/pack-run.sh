#!/usr/bin/env bash
# Packs a run of scripts/bench.sh into five files, so that it can be committed.
#
#   scripts/pack-run.sh FOLDER NAME
#
#   FOLDER  folder that scripts/bench.sh wrote, usually in bench/out
#   NAME    name of the folder in bench/runs, `DATE-SUBJECT`
#
# The run has report.md; bench.conf, facts.tsv and samples.csv with the settings, the machine and all figures; and
# samples.tar.xz with the other files, from which `bench-report report` can create the report again. Profiles are not
# kept.
set -euo pipefail

[ $# -eq 2 ] && [ -d "$1" ] || {
  echo "usage: scripts/pack-run.sh FOLDER NAME" >&2
  exit 2
}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
from=$(cd "$1" && pwd)
to=$root/bench/runs/$2
shown=(report.md bench.conf facts.tsv samples.csv)
for file in "${shown[@]}"; do
  [ -e "$from/$file" ] || {
    echo "error: $from has no $file: expected a complete run of scripts/bench.sh" >&2
    exit 2
  }
done

others=()
for entry in "$from"/*; do
  name=${entry##*/}
  case " ${shown[*]} profile " in
    *" $name "*) ;;
    *) others+=("$name") ;;
  esac
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -e "$from/samples.tar.xz" ]; then
  # The run was packed partly before.
  tar -xJf "$from/samples.tar.xz" -C "$scratch"
fi
for name in "${others[@]}"; do
  [ "$name" = samples.tar.xz ] || cp -r "$from/$name" "$scratch/"
done
mkdir -p "$to"
tar --sort=name --owner=0 --group=0 --mtime=@0 -cJf "$to/samples.tar.xz" -C "$scratch" .
for file in "${shown[@]}"; do
  [ "$from" = "$to" ] || cp "$from/$file" "$to/$file"
done
if [ "$from" = "$to" ]; then
  for name in "${others[@]}"; do
    [ "$name" = samples.tar.xz ] || rm -r "${to:?}/$name"
  done
fi
echo "$to: $(find "$to" -type f | wc -l) files" >&2
