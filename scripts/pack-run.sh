#!/usr/bin/env bash
# Packs a run of scripts/bench.sh to be kept: five files instead of hundreds.
#
#   scripts/pack-run.sh FOLDER NAME
#
#   FOLDER  what scripts/bench.sh wrote, in bench/out as a rule
#   NAME    of the folder in bench/runs, `DATE-WHAT`
#
# What is kept: report.md; bench.conf, facts.tsv and samples.csv, which say what was run, where, and
# every figure; and samples.tar.xz with all else, from which
# `bench-report report` makes the report again. Profiles are not kept.
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
    echo "error: $from has no $file: it is no run of scripts/bench.sh, or was interrupted" >&2
    exit 2
  }
done

rest=()
for entry in "$from"/*; do
  name=${entry##*/}
  case " ${shown[*]} profile " in
    *" $name "*) ;;
    *) rest+=("$name") ;;
  esac
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -e "$from/samples.tar.xz" ]; then
  # Packed in part before.
  tar -xJf "$from/samples.tar.xz" -C "$scratch"
fi
for name in "${rest[@]}"; do
  [ "$name" = samples.tar.xz ] || cp -r "$from/$name" "$scratch/"
done
mkdir -p "$to"
tar --sort=name --owner=0 --group=0 --mtime=@0 -cJf "$to/samples.tar.xz" -C "$scratch" .
for file in "${shown[@]}"; do
  [ "$from" = "$to" ] || cp "$from/$file" "$to/$file"
done
if [ "$from" = "$to" ]; then
  for name in "${rest[@]}"; do
    [ "$name" = samples.tar.xz ] || rm -r "${to:?}/$name"
  done
fi
echo "$to: $(find "$to" -type f | wc -l) files" >&2
