#!/bin/sh
# Runs the compiler in builds with randomised layouts (RUSTC_WRAPPER of `cargo xtask ci boundary`).
#
# rustix 1.1 passes its `Itimerspec` to the kernel, but the type has no `repr(C)`. If its two fields are swapped, timers
# never end. This fault has nothing to do with the boundary, so the layouts of rustix are not randomised.
case " $* " in
*" --crate-name rustix "*) exec "$@" -Zrandomize-layout=no ;;
*) exec "$@" ;;
esac
