# What the setup scripts share. They source it.

say() { echo "setup: $*" >&2; }

root_on_debian() { [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; }

install_packages() {
	say "installing $*"
	export DEBIAN_FRONTEND=noninteractive
	local wait="DPkg::Lock::Timeout=300"
	apt-get -o "$wait" -qq update &&
		apt-get -o "$wait" -qq install -y --no-install-recommends "$@" >/dev/null
}

# need installs packages, if there are any, or ends the script.
need() {
	[ $# = 0 ] && return
	root_on_debian || { say "not root on Debian: install $*"; exit 1; }
	install_packages "$@"
}
