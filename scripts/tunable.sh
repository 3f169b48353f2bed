#!/usr/bin/env bash
# Copies the sources, and makes the constants that decide how tasks share processors read from the environment, so that
# one build can compare many values.
#
#   scripts/tunable.sh FOLDER
#
# FOLDER gets the files of the working tree that git does not ignore. In a build of FOLDER, the variable TUNE_NAME sets
# the constant NAME of runtime/src/engine/tuning.rs or runtime/src/executor/threads.rs. The value is a number, or ns for
# a duration; TUNE_NAME_LEAST and TUNE_NAME_MOST set a range. For comparisons, see docs/benchmarks/harness.md.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ ! -e "$1" ] || { echo "error: $1 exists already" >&2; exit 2; }
mkdir -p "$1"
git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar --extract --directory "$1"
cd "$1"

constant='const ([A-Z_]+): (usize|u32|u64|Duration|RangeInclusive<\w+>) = (.*);'
files=(runtime/src/engine/tuning.rs runtime/src/executor/threads.rs)
names=$(perl -ne "print qq(\$1\n) if /^(?:pub\(crate\) )?$constant/" "${files[@]}" | paste --serial --delimiters='|')

# Each constant becomes a function of the same name, which reads its value once.
# shellcheck disable=SC2016 # the variables are those of perl
constant=$constant perl -i -pe '
  s{^((?:pub\(crate\) )?)$ENV{constant}}{
    my ($scope, $name, $type, $default) = ($1, $2, $3, $4);
    my $read = "let read = |name: &str, default: u64| -> u64 { std::env::var(name).map_or(default, |it| it.parse().expect(name)) };";
    my $new = $type =~ /<(\w+)>/
      ? "let it: $type = $default; let [least, most] = [(\"LEAST\", *it.start()), (\"MOST\", *it.end())].map(|(end, at)| read(&format!(\"TUNE_${name}_{end}\"), at.into()) as $1); least..=most"
      : $type eq "Duration"
      ? "let it: $type = $default; Duration::from_nanos(read(\"TUNE_$name\", it.as_nanos() as u64))"
      : "let it: $type = $default; read(\"TUNE_$name\", it as u64) as $type";
    "${scope}fn $name() -> $type { static IT: std::sync::LazyLock<$type> = std::sync::LazyLock::new(|| { $read $new }); IT.clone() }"
  }e;
' "${files[@]}"

# Each use becomes a call, except in comments and imports.
# shellcheck disable=SC2016
grep --recursive --files-with-matches --extended-regexp "\b($names)\b" runtime/src/{engine,executor} --include='*.rs' \
  | grep --invert-match '/tests' \
  | names=$names xargs perl -i -pe '
    next if m{^\s*//} || /^\s*(?:pub\(crate\) )?fn [A-Z]/ || /^\s*(?:pub )?use / || /^\s*tuning::/ || /const (?:$ENV{names}):/;
    s/\b($ENV{names})\b(?!\()/$1()/g;
  '
