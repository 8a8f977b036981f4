package zkserver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config is how a server is set up. The zero value is a server that is quick
// rather than durable.
type Config struct {
	// TickTime is ZooKeeper's unit of time, 500 ms when zero. Sessions get a
	// timeout between 2 and 20 ticks, unless Extra sets minSessionTimeout and
	// maxSessionTimeout (in milliseconds).
	TickTime time.Duration

	// Extra holds further lines of zoo.cfg, and wins over what is set here.
	// Neither keys nor values may contain white space.
	Extra map[string]string

	// JVMFlags follow the harness's own flags, so they win too. Flags with
	// white space in them are not possible.
	JVMFlags []string
}

// lines returns the lines of zoo.cfg that do not depend on where the server
// runs, the later ones overriding the earlier.
func (c Config) lines() ([]string, error) {
	tick := c.TickTime
	if tick == 0 {
		tick = 500 * time.Millisecond
	}
	// The limits are counted in ticks. What matters is the time they make: a
	// follower may take 10 s to join and be silent for 2 s, however short the
	// tick. A busy machine loses its quorum with less.
	ticks := func(d time.Duration) string { return strconv.Itoa(int((d + tick - 1) / tick)) }
	lines := []string{
		"tickTime=" + strconv.FormatInt(tick.Milliseconds(), 10),
		"initLimit=" + ticks(10*time.Second),
		"syncLimit=" + ticks(2*time.Second),
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
	}
	for _, key := range slices.Sorted(maps.Keys(c.Extra)) {
		lines = append(lines, key+"="+c.Extra[key])
	}
	for _, line := range append(slices.Clone(lines), c.JVMFlags...) {
		if strings.ContainsAny(line, " \t\r\n") {
			return nil, fmt.Errorf("white space in %q", line)
		}
	}
	return lines, nil
}

// jvmFlags returns the flags of the server's JVM.
func (c Config) jvmFlags() []string {
	return append([]string{
		// Up in half a second rather than fast after an hour.
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData",
		// The disk: a write is not forced to it. A killed server still finds
		// its data, a machine that loses power would not. Log files grow in
		// steps of 1 MiB, not 64.
		"-Dzookeeper.forceSync=no",
		"-Dzookeeper.preAllocSize=1024",
		"-Dzookeeper.fsync.warningthresholdms=60000",
		// Empty containers go within a second or so, and as many as there are
		// (ContainerManager; the defaults are a minute and 10,000 a minute).
		"-Dznode.container.checkIntervalMs=500",
		"-Dznode.container.maxPerMinute=1000000",
		// Nodes with a time to live, off by default.
		"-Dzookeeper.extendedTypesEnabled=true",
		// An election waits 5 s for a peer that does not answer, and up to a
		// minute between two rounds; in a test the peer is gone on purpose.
		"-Dzookeeper.cnxTimeout=500",
		"-Dzookeeper.fastleader.maxNotificationInterval=500",
		"-Dzookeeper.jmx.log4j.disable=true",
	}, c.JVMFlags...)
}
