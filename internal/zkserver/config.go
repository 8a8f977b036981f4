package zkserver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config configures a server. The zero value configures a server that is fast
// rather than durable.
type Config struct {
	// Version is one of Versions. Empty means the Provider's default.
	Version string

	// TickTime is ZooKeeper's unit of time, 500 ms if zero. Session timeouts are
	// between 2 and 20 ticks, unless Extra sets minSessionTimeout and
	// maxSessionTimeout (in milliseconds).
	TickTime time.Duration

	// ReapEvery is how often the server deletes empty containers, 500 ms if zero.
	ReapEvery time.Duration

	// Extra holds more settings for zoo.cfg. They override all others. Neither
	// keys nor values may contain white space.
	Extra map[string]string

	// JVMFlags follow the harness's own flags, so they override those. They
	// must not contain white space.
	JVMFlags []string

	// Quorum makes a single server an ensemble of one. Like a member of a larger one,
	// and unlike a standalone server, it begins a new epoch each time it starts, and
	// so it accepts sessions that have seen more than it has.
	Quorum bool

	// TLS, if set, opens a secure port beside the plain one.
	TLS *TLS

	// Files are further files that the server finds, by their names. In JVMFlags and in the
	// files, FilesDir stands for their directory. Node.Write replaces one.
	Files map[string]string
}

// FilesDir stands for the directory of Config.Files.
const FilesDir = "$FILES"

// lines returns the lines of zoo.cfg that do not depend on where the server
// runs. Later lines override earlier ones.
func (c Config) lines() ([]string, error) {
	tick := c.TickTime
	if tick == 0 {
		tick = 500 * time.Millisecond
	}
	// zoo.cfg counts the limits in ticks. However short the tick, a follower
	// may take 10 s to join and be silent for 2 s. With less, an ensemble on a
	// busy machine loses its quorum.
	ticks := func(d time.Duration) string { return strconv.Itoa(int((d + tick - 1) / tick)) }
	lines := []string{
		"tickTime=" + strconv.FormatInt(tick.Milliseconds(), 10),
		"initLimit=" + ticks(10*time.Second),
		"syncLimit=" + ticks(2*time.Second),
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
	}
	if c.Quorum {
		lines = append(lines, "standaloneEnabled=false")
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
	reapEvery := c.ReapEvery
	if reapEvery == 0 {
		reapEvery = 500 * time.Millisecond
	}
	return append([]string{
		// Start in half a second rather than be fast after an hour.
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData",
		// Do not force writes to the disk. The data survives a killed server,
		// but not a power failure. Log files grow in steps of 1 MiB, not 64.
		"-Dzookeeper.forceSync=no",
		"-Dzookeeper.preAllocSize=1024",
		"-Dzookeeper.fsync.warningthresholdms=60000",
		// Delete empty containers without a limit (ContainerManager; the defaults
		// are every minute and 10,000 a minute).
		"-Dznode.container.checkIntervalMs=" + strconv.FormatInt(reapEvery.Milliseconds(), 10),
		"-Dznode.container.maxPerMinute=1000000",
		// Znodes with a time to live are off by default.
		"-Dzookeeper.extendedTypesEnabled=true",
		// By default an election waits 5 s for a peer that does not answer,
		// and up to a minute between two rounds. In a test the peer is down on
		// purpose.
		"-Dzookeeper.cnxTimeout=500",
		"-Dzookeeper.fastleader.maxNotificationInterval=500",
		"-Dzookeeper.jmx.log4j.disable=true",
	}, c.JVMFlags...)
}
