# shellcheck shell=bash
# The settings of a benchmark, which are read from a file and from arguments into variables.
#
# `flows`, `subjects` (NAME=COMMAND) and `builds` are lists; `rounds`, `warmup`, `duration` and `seed` are numbers;
# `baseline`, `check`, `output`, `pin`, `config` and `resume` are texts; `build`, `dry_run` and `profile` are `yes` or
# `no`.

config=bench/bench.conf resume='' baseline='' check='' rounds=10 warmup=2 duration=10 output='' pin='' seed=''
build=no dry_run=no profile=no
flows=() subjects=() builds=()
# Settings that were given as arguments, and override those of the file.
declare -A given=()

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' scripts/bench.sh; }

parse_arguments() {
  local option count=$#
  while [ $# -gt 0 ]; do
    option=$1
    case $option in
      --build) build=yes ;;
      --dry-run) dry_run=yes ;;
      --profile) profile=yes ;;
      -h | --help)
        usage
        exit 0
        ;;
      --config | --resume | --flow | --subject | --baseline | --check | --rounds | --warmup | --duration | --output | --pin | --seed)
        [ $# -ge 2 ] || refuse "$option needs a value" "See scripts/bench.sh --help."
        case $option in
          --config) config=$2 ;;
          --resume) resume=$2 ;;
          *)
            given[${option#--}]=yes
            set_option "${option#--}" "$2" "$option"
            ;;
        esac
        shift
        ;;
      *) refuse "unknown option $option" "See scripts/bench.sh --help." ;;
    esac
    shift
  done
  [ -z "$resume" ] || [ "$count" -eq 2 ] \
    || refuse "--resume takes no other option" "The settings are in $resume."
}

# Sets a setting. Arguments: key, value, file and line or option.
set_option() {
  case $1 in
    flow) flows+=("$2") ;;
    subject) subjects+=("$2") ;;
    build) builds+=("$2") ;;
    baseline | check | rounds | warmup | duration | output | pin | seed | profile) printf -v "$1" %s "$2" ;;
    *) refuse "$3: unknown setting \`$1\`" \
      "Expected flow, subject, build, baseline, check, rounds, warmup, duration, output, pin, seed or profile." ;;
  esac
}

# Reads lines `key = value`. Nothing in the file is executed.
load_settings() {
  local line number=0 key value
  [ -r "$config" ] || refuse "cannot read the configuration $config" "Choose another one with --config."
  while IFS= read -r line || [ -n "$line" ]; do
    number=$((number + 1))
    [[ $line =~ ^[[:space:]]*(#|$) ]] && continue
    [[ $line =~ ^[[:space:]]*([a-z]+)[[:space:]]*=[[:space:]]*(.*)$ ]] \
      || refuse "$config:$number: invalid setting \`$line\`" "Expected key = value."
    key=${BASH_REMATCH[1]} value=${BASH_REMATCH[2]}
    value=${value%"${value##*[![:space:]]}"}
    [ -n "${given[$key]:-}" ] || set_option "$key" "$value" "$config:$number"
  done < "$config"
}

# Prints the settings in the format that `load_settings` reads.
print_settings() {
  local value key
  for value in "${subjects[@]}"; do echo "subject = $value"; done
  for value in "${flows[@]}"; do echo "flow = $value"; done
  for key in baseline check rounds warmup duration pin seed profile; do echo "$key = ${!key}"; done
}

# Loads the settings of an interrupted benchmark. Its folder contains the settings, the plan, and the finished runs.
load_interrupted() {
  config=$resume/bench.conf
  [ -r "$config" ] && [ -r "$resume/plan.tsv" ] && [ -r "$resume/runs.tsv" ] \
    || refuse "$resume has no benchmark that can be resumed" "Expected the files bench.conf, plan.tsv and runs.tsv."
  load_settings
  output=$resume
}

check_settings() {
  local name pair
  declare -gA commands=() flow_files=()
  subject_names=() flow_names=()
  check_number rounds "$rounds" '^[1-9][0-9]*$' 'a whole number from 1 on'
  check_number warmup "$warmup" '^[0-9]+(\.[0-9]+)?$' 'seconds'
  check_number duration "$duration" '^(0\.[0-9]*[1-9][0-9]*|[1-9][0-9]*(\.[0-9]+)?)$' 'seconds above 0'
  seed=${seed:-$(date +%s)}
  check_number seed "$seed" '^[0-9]{1,18}$' 'a whole number'
  [ ${#subjects[@]} -gt 0 ] || refuse "there is no subject" "Give --subject NAME=COMMAND, or subject = … in $config."
  [ ${#flows[@]} -gt 0 ] || refuse "there is no flow" "Give --flow FILE, or flow = … in $config."
  for pair in "${subjects[@]}"; do
    [[ $pair =~ ^([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)$ ]] \
      || refuse "invalid subject \`$pair\`" "Expected NAME=COMMAND with a name of letters, digits, dots, - and _."
    name=${BASH_REMATCH[1]}
    [ -z "${commands[$name]:-}" ] || refuse "two subjects have the name $name" "Rename one of them."
    commands[$name]=${BASH_REMATCH[2]}
    subject_names+=("$name")
  done
  baseline=${baseline:-${subject_names[0]}}
  [ -n "${commands[$baseline]:-}" ] \
    || refuse "the baseline $baseline is not a subject" "Expected one of: ${subject_names[*]}."
  # The baseline runs a second time with another name, to measure the noise.
  again=$baseline-again
  [ -z "${commands[$again]:-}" ] || refuse "the name $again is reserved for the second run of $baseline" "Rename that subject."
  commands[$again]=${commands[$baseline]}
  all_names=("${subject_names[@]}" "$again")
  for pair in "${flows[@]}"; do
    name=$(basename "$pair")
    name=${name%.*}
    [[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || refuse "invalid name of the flow $pair: expected letters, digits, dots, - and _" "Rename the file."
    [ -z "${flow_files[$name]:-}" ] || refuse "two flows have the name $name: ${flow_files[$name]} and $pair" "Rename one of the files."
    [ -r "$pair" ] || refuse "cannot read the flow $pair" "Paths are relative to $root."
    flow_files[$name]=$pair
    flow_names+=("$name")
  done
}

check_number() {
  [[ $2 =~ $3 ]] || refuse "invalid $1 \`$2\`" "Expected $4."
}

# Splits a command line with quotes and backslashes as a shell does, but without expansions. Arguments: name of the
# array, line.
split_words() {
  local -n into=$1
  local text
  text=$(xargs printf '%s\n' <<< "$2" 2> /dev/null) || refuse "\`$2\` has an unclosed quote" "Close the quote."
  mapfile -t into <<< "$text"
  [ -n "${into[0]}" ] || refuse "a command is empty" "Give a program and its arguments."
}

# Sets the array `words` to a command with all placeholders replaced. Arguments: command, flow, file for the JSON, file
# for the distribution, seconds of warm-up, seconds of measurement.
fill_in() {
  local index
  split_words words "$1"
  for index in "${!words[@]}"; do
    local word=${words[$index]}
    word=${word//'{flow}'/"${flow_files[$2]}"}
    word=${word//'{name}'/"$2"}
    word=${word//'{json}'/"$3"}
    word=${word//'{hgrm}'/"$4"}
    word=${word//'{warmup}'/"$5"}
    words[index]=${word//'{duration}'/"$6"}
  done
}
