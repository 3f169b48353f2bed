# shellcheck shell=bash
# Facts about the machine, and its state before and after a benchmark.

load_average() { cut -d' ' -f1 /proc/loadavg 2> /dev/null || echo 0; }

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

# Prints the first line of a file; nothing if the file cannot be read.
first_line() {
  local line=''
  [ ! -r "$1" ] || read -r line < "$1" || true
  printf %s "$line"
}

# Prints the clock of the first processor in MHz; nothing if it cannot be read.
clock_mhz() {
  local khz
  khz=$(first_line /sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq)
  [ -z "$khz" ] || echo $((khz / 1000))
}

# Prints the temperature of the hottest thermal zone in °C; nothing if none can be read.
temperature() {
  local zone value hottest=''
  for zone in /sys/class/thermal/thermal_zone*/temp; do
    value=$(first_line "$zone" 2> /dev/null)
    [[ $value =~ ^[0-9]+$ ]] || continue
    [ -n "$hottest" ] && [ "$value" -le "$hottest" ] || hottest=$value
  done
  [ -z "$hottest" ] || echo $((hottest / 1000))
}

turbo() {
  case intel$(first_line /sys/devices/system/cpu/intel_pstate/no_turbo)amd$(first_line /sys/devices/system/cpu/cpufreq/boost) in
    intel0* | *amd1) echo on ;;
    intel1* | *amd0) echo off ;;
    *) echo "cannot be read" ;;
  esac
}

# Adds a line to facts.tsv: kind, name, value.
fact() { printf '%s\t%s\t%s\n' "$1" "$2" "$(tr '\t\n' '  ' <<< "$3" | sed 's/ *$//')" >> "$output/facts.tsv"; }

# Prints the value behind `key:` in a file of /proc.
proc_value() { sed -n "s/^$2[^:]*: *//p" "$1" 2> /dev/null | head -n 1; }

commit() { git describe --always --dirty --abbrev=40 --exclude='*' 2> /dev/null || echo "not in a repository"; }

describe_machine() {
  local governor
  governor=$(first_line /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor)
  fact machine processor "$(proc_value /proc/cpuinfo 'model name'), $(nproc --all) processors"
  fact machine 'threads of a core' "$(lscpu 2> /dev/null | sed -n 's/^Thread(s) per core: *//p')"
  fact machine memory "$(($(proc_value /proc/meminfo MemTotal | tr -dc 0-9) / 1024)) MB"
  fact machine kernel "$(uname -srm)"
  fact machine system "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2> /dev/null)"
  fact machine virtual "$(systemd-detect-virt 2> /dev/null || { grep -q hypervisor /proc/cpuinfo && echo yes || echo no; })"
  fact machine governor "${governor:-cannot be read}"
  fact machine turbo "$(turbo)"
  fact machine commit "$(commit)"
  fact machine rustc "$(rustc --version 2> /dev/null || echo none)"
  fact machine bash "$BASH_VERSION"
}

# Adds a fact with the current time, load, clock and temperature. Argument: name of the fact.
describe_state() {
  local mhz celsius
  mhz=$(clock_mhz) celsius=$(temperature)
  fact machine "$1" "$(date -u +%Y-%m-%dT%H:%M:%SZ), load $(cut -d' ' -f1-3 /proc/loadavg)${mhz:+, $mhz MHz}${celsius:+, $celsius °C}"
}
