#!/bin/bash
# Downloads the jars of ZooKeeper itself from another release of Debian than this
# machine's. They run with the libraries of this machine's release.
#
#   jars.sh trixie 3.9 dir     writes dir/zookeeper.jar and dir/zookeeper-jute.jar
#
# It fails if the release has another version of ZooKeeper.
#
# apt checks the signatures. It uses lists and a cache of its own, so this needs
# no root and changes nothing on this machine. The harness embeds this file.
set -euo pipefail

release=$1 version=$2 dir=$3
keys=/usr/share/keyrings/debian-archive-keyring.gpg

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists,archives}/partial
touch "$work/status"

# From the mirror that this machine uses.
mirror=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' |
	awk '$1 == "Debian" && $2 !~ /security/ { print $2; exit }')
[ -n "$mirror" ] || { echo "jars.sh: apt knows no mirror of Debian" >&2 && exit 1; }
echo "deb [signed-by=$keys] $mirror $release main" >"$work/sources.list"

apt() {
	apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State="$work" -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status" \
		-o Dir::Cache="$work" -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none "$@"
}
apt update
cd "$work"
apt download "libzookeeper-java=$version*"
dpkg-deb -x libzookeeper-java_*.deb .
cp usr/share/java/zookeeper.jar "$dir"
cp usr/share/java/zookeeper-jute.jar "$dir"
