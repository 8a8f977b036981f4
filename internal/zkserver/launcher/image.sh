#!/bin/bash
# Builds a ZooKeeper image from Debian's packages, for machines that reach a
# Debian mirror but no registry of images. The image understands the variables
# of the official image (ZOO_SERVERS, ZOO_MY_ID, ...), so the harness treats both
# alike. It runs the ZooKeeper of Debian 13, which is 3.9.3, or with
# ZOO_VERSION=3.8 that of Debian 12, which is 3.8.0.
#
#   image.sh [-f]     does nothing if the image exists, unless -f is given
#
# The harness embeds this file. It must not read its standard input or use files
# beside it.
set -euo pipefail

tag=${ZK_IMAGE_TAG:-zkrecipes-zookeeper:debian13}
force=
[ "${1:-}" = -f ] && force=yes

say() { echo "image.sh: $*" >&2; }
die() { say "$@"; exit 1; }
exists() { [ -z "$force" ] && docker image inspect "$tag" >/dev/null 2>&1; }

exists && exit 0

[ "$(id -u)" = 0 ] || die "building $tag needs root (debootstrap makes a root file system)"
[ -f /etc/debian_version ] || die "building $tag needs a Debian system"

# Two test packages may run this at once. One builds, the other finds the image. The lock is
# on a file that only root could replace.
exec 9</etc/debian_version
flock 9
exists && exit 0

started=$(date +%s)
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
if ! command -v debootstrap >/dev/null; then
	apt-get -qq update
	apt-get -qq install -y --no-install-recommends debootstrap debian-archive-keyring >/dev/null
fi

work=$(mktemp -d)
# Nothing is mounted below $work in this mount namespace (see unshare below), so
# removing it never touches the host's /proc.
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
log=$work/log

run() { "$@" >>"$log" 2>&1 9>&- </dev/null || { tail -n 30 "$log" >&2; die "failed: $*"; }; }

say "building $tag from Debian's packages, about a minute"
run debootstrap --variant=minbase trixie "$root"

cat >"$root/etc/dpkg/dpkg.cfg.d/small" <<'CONF'
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
force-unsafe-io
CONF

# The package zookeeper would add the graphical parts of Java. The library and a
# headless JRE are enough for a server. Java's packages need /proc for their
# installation. It is mounted in a namespace of its own, and vanishes with it.
run unshare --mount --propagation private bash -euc '
	mount -t proc proc "$1/proc"
	export PATH=/usr/sbin:/usr/bin:/sbin:/bin
	chroot "$1" apt-get update
	chroot "$1" apt-get install -y --no-install-recommends default-jre-headless libzookeeper-java
	# Of Debian 12 only the jars of ZooKeeper itself. It runs with the newer
	# versions of the libraries.
	sed "s/ trixie / bookworm /" "$1/etc/apt/sources.list" >"$1/etc/apt/sources.list.d/bookworm.list"
	chroot "$1" apt-get update
	chroot "$1" sh -euc "
		mkdir /opt/zookeeper-3.8
		cd /opt/zookeeper-3.8
		apt-get download libzookeeper-java/bookworm
		dpkg-deb -x libzookeeper-java_3.8*.deb .
		cp usr/share/java/zookeeper.jar .
		cp usr/share/java/zookeeper-jute.jar .
		rm -r usr *.deb"
' - "$root"

mkdir -p "$root/conf" "$root/data"
cat >"$root/entrypoint.sh" <<'ENTRY'
#!/bin/bash
# Writes zoo.cfg from the variables of the official image, then runs java.
set -euf

# Only once: a server of an ensemble rewrites its own file, and must find it again
# when the container restarts.
if [ ! -f /conf/zoo.cfg ]; then
	{
		echo "dataDir=/data"
		echo "tickTime=${ZOO_TICK_TIME:-2000}"
		echo "initLimit=${ZOO_INIT_LIMIT:-5}"
		echo "syncLimit=${ZOO_SYNC_LIMIT:-2}"
		echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
		echo "standaloneEnabled=${ZOO_STANDALONE_ENABLED:-true}"
		echo "admin.enableServer=false"
		echo "4lw.commands.whitelist=${ZOO_4LW_COMMANDS_WHITELIST:-srvr}"
		if [ -z "${ZOO_SERVERS:-}" ]; then
			echo "clientPort=2181"
		fi
		for line in ${ZOO_SERVERS:-} ${ZOO_CFG_EXTRA:-}; do
			echo "$line"
		done
	} >/conf/zoo.cfg
fi
[ -f /data/myid ] || echo "${ZOO_MY_ID:-1}" >/data/myid

# zookeeper.jar names the other jars it needs in its manifest. Among these is the
# zookeeper-jute.jar of 3.9, so that of 3.8 must come first.
case ${ZOO_VERSION:-3.9} in
3.9) jars=/usr/share/java/zookeeper.jar ;;
3.8) jars=/opt/zookeeper-3.8/zookeeper-jute.jar:/opt/zookeeper-3.8/zookeeper.jar ;;
*) echo "entrypoint.sh: no ZooKeeper $ZOO_VERSION here" >&2 && exit 1 ;;
esac

# exec makes java process 1, so stopping or killing the container stops or kills
# the server.
exec java ${JVMFLAGS:-} \
	-Dorg.slf4j.simpleLogger.defaultLogLevel="${ZOO_LOG_LEVEL:-warn}" \
	-Dzookeeper.jmx.log4j.disable=true \
	-cp "$jars:/usr/share/java/slf4j-simple.jar" \
	org.apache.zookeeper.server.quorum.QuorumPeerMain /conf/zoo.cfg
ENTRY
chmod 755 "$root/entrypoint.sh"

# Remove what a server never opens. debootstrap unpacks the first packages before
# dpkg's excludes are in place, so their documents are removed here.
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* \
	"$root"/usr/share/{doc,man,info,locale,zoneinfo,bug,lintian,maven-repo}/* \
	"$root"/usr/share/java/zookeeper-{contrib,it,recipes}* \
	"$root"/usr/lib/*/gconv "$root"/usr/lib/jvm/*/{man,docs,lib/*.src.zip} \
	"$root"/dev/* "$root"/proc/* "$root"/sys/*

tar -C "$root" --numeric-owner -c . |
	docker import \
		--change 'ENTRYPOINT ["/entrypoint.sh"]' \
		--change 'EXPOSE 2181 2888 3888' \
		--change 'ENV PATH=/usr/sbin:/usr/bin:/sbin:/bin' \
		--change 'WORKDIR /data' \
		- "$tag" 9>&- >/dev/null

size=$(docker image inspect -f '{{.Size}}' "$tag")
say "built $tag, $((size / 1000000)) MB, in $(($(date +%s) - started)) s"
