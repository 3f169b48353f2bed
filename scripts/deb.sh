#!/usr/bin/env bash
# Builds a Debian package from the folder of the archive that `cargo xtask dist` creates. Needs only dpkg-deb, which
# every Debian system has. Equal files give equal bytes.
#
# Usage: deb.sh FOLDER VERSION MACHINE GLIBC FILE.deb
# COMPRESSION (xz) is the compression of the package, such as `none`.
set -euo pipefail
umask 022

folder=$1 version=$2 machine=$3 glibc=$4 package=$5
dist=$(dirname "${BASH_SOURCE[0]}")/../dist
export SOURCE_DATE_EPOCH=0 LC_ALL=C

case $machine in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) echo "cannot build a Debian package: Debian has no name for the architecture $machine" >&2; exit 1 ;;
esac

tree=$package.tree
rm -rf "$tree" "$package"
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/DEBIAN" "$tree/usr" "$tree/etc/tremor"
cp -r "$folder/bin" "$folder/lib" "$folder/share" "$tree/usr"
cp "$dist/example.yaml" "$tree/etc/tremor"
find "$tree" -type d -exec chmod 0755 {} +
find "$tree" -type f -exec chmod 0644 {} +
chmod 0755 "$tree/usr/bin/tremor"
find "$tree/usr/share" -path '*/man/*' -type f -exec gzip -9n {} +
doc=$tree/usr/share/doc/tremor
mkdir -p "$doc"
cat "$dist/../LICENSE-MIT" "$dist/../LICENSE-APACHE" > "$doc/copyright"

cat > "$tree/DEBIAN/control" << END
Package: tremor
Version: $version
Architecture: $architecture
Maintainer: the contributors of tremor <tremor@localhost>
Installed-Size: $(du --apparent-size --summarize --block-size=1024 "$tree" | cut -f 1)
Depends: libc6 (>= $glibc), libgcc-s1, systemd | systemd-standalone-sysusers | adduser
Recommends: ca-certificates
Section: net
Priority: optional
Description: streaming event processor
 tremor reads events from files, sockets, HTTP, Kafka, NATS, the journal and
 other sources, transforms them, and delivers them. Its connectors are plugins.
 This package contains the program, all plugins, and the service tremor@NAME,
 which runs the flow /etc/tremor/NAME.yaml.
END
(cd "$tree" && find etc -type f | sort | sed 's|^|/|') > "$tree/DEBIAN/conffiles"
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) > "$tree/DEBIAN/md5sums"
install -m 0755 "$dist/debian/postinst" "$dist/debian/prerm" "$dist/debian/postrm" "$tree/DEBIAN"
# With several threads, the compressed bytes would depend on the machine.
dpkg-deb --root-owner-group --threads-max=1 -Z"${COMPRESSION:-xz}" --build "$tree" "$package" > /dev/null
