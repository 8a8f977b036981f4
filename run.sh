set -e
cd /tmp/try && git reset -q --hard && git clean -qfd && git checkout -q --detach $1
cp -r /tmp/mv/overlay/. /tmp/try/ 2>/dev/null || true
/tmp/mv/mv /tmp/try
