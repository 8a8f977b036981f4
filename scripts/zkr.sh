#!/bin/bash
# Builds static binaries of cmd/zkr in bin, and its man pages in bin/man.
set -euo pipefail
cd "$(dirname "$0")/.."

for system in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64; do
	CGO_ENABLED=0 GOOS=${system%-*} GOARCH=${system#*-} \
		go build -C cmd/zkr -trimpath -ldflags '-s -w' -o "../../bin/zkr-$system" .
	ls -l "bin/zkr-$system"
done
mkdir -p bin/man
go run -C cmd/zkr . man ../../bin/man
