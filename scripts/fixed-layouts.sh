#!/bin/sh
# The compiler, for builds with randomised layouts (RUSTC_WRAPPER of `cargo xtask sanitize --randomize-layout`).
#
# rustix 1.1 gives the kernel its `Itimerspec`, which has no `repr(C)`: where the two fields change places, no
# timer ever ends. That is no fault of the boundary, so that crate keeps the layouts that it was tested with.
case " $* " in
*" --crate-name rustix "*) exec "$@" -Zrandomize-layout=no ;;
*) exec "$@" ;;
esac
