#!/bin/bash
# The steps of a release. docs/release.md says when each of them is taken.
#
#	./scripts/release.sh check    fail if this tree is not ready to be tagged or, with TAG set,
#	                              is not what the tags say
#	./scripts/release.sh compat   fail on changes that are incompatible with the newest release
#	./scripts/release.sh sums     write the root's hashes into the other modules' go.sum
#	./scripts/release.sh notes    print the section of CHANGELOG
#	./scripts/release.sh dist     build what a release on GitHub has in bin/dist: binaries of
#	                              cmd/zkr with an SBOM each, its man pages, checksums
set -euo pipefail
cd "$(dirname "$0")/.."
CYCLONEDX=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

dist() {
	rm -rf bin/dist bin/man bin/zkr-*
	GOFLAGS=-buildvcs=true ./scripts/zkr.sh # else a GOFLAGS of the environment could leave the version out
	mkdir bin/dist
	cp bin/zkr-* bin/dist/
	tar -C bin/man --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -c . | gzip -n >bin/dist/zkr-man.tar.gz
	for binary in bin/zkr-*; do
		binary=bin/dist/${binary#bin/}
		go run $CYCLONEDX bin -json -output "$binary.cdx.json" "$binary"
	done
	cd bin/dist
	sha256sum -- * >SHA256SUMS
	cat SHA256SUMS
}

case ${1:-} in
check) go run -C internal/api ./release check ${TAG:+"$TAG"} ;;
compat) go run -C internal/api . compat ;;
sums | notes) go run -C internal/api ./release "$1" ;;
dist) dist ;;
*) sed -n 's/^#	//p' "$0" >&2 && exit 2 ;;
esac
