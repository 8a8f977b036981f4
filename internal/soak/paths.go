package main

import (
	"fmt"
	pathpkg "path"
	"slices"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// The znodes of a run. Keys are paths below root, which is the clients' prefix.
const (
	root       = "/soak"
	lockKey    = "/lock"
	rwKey      = "/rw"
	queueKey   = "/queue"
	boundedKey = "/bounded"
	barrierKey = "/barrier"
	doubleKey  = "/double"
	gateKey    = "/gate"
	failingKey = "/failing"
	deadKey    = "/failing-dead"
	keptKey    = "/kept"
	allKey     = "/all" // no znode: what callers of LockAll wait for

	semaphoreKey = "/semaphore"
	electionKey  = "/election"
	groupKey     = "/group"
	shardsKey    = "/shards"
	counterKey   = "/counter"

	donePath  = "/done" // what acks leave
	plainPath = "/plain"
)

// otherPath has the other znodes. See fill for why this name.
const otherPath = "/other"

// churned is how many locks there are that are taken and released at once.
const churned = 20

func churnKey(i int) string { return fmt.Sprint(churnPrefix, i) }

const churnPrefix = "/churn-"

func churnKeys() []string { return numbered(churned, churnKey) }

// numbered returns the keys with the first n numbers.
func numbered(n int, key func(i int) string) (keys []string) {
	for i := range n {
		keys = append(keys, key(i))
	}
	return keys
}

// severalKeys are the locks that LockAll takes.
var severalKeys = []string{"/all-a", "/all-b", "/all-c"}

// slots is how many slots the semaphore has.
const slots = 3

// slotKey returns the name of a slot's data.
func slotKey(i int) string { return fmt.Sprint(semaphoreKey, "-", i) }

// shards is how many shards there are.
const shards = 12

// shardKeys returns the names of the shards' data.
func shardKeys() []string { return numbered(shards, shardKey) }

func shardKey(i int) string { return fmt.Sprint("/shard-", i) }

// servedKeys returns what workers wait for.
func servedKeys() []string {
	return slices.Concat(severalKeys, churnKeys(), []string{
		semaphoreKey, electionKey, keptKey, allKey, rwKey + judge.DowngradeSuffix,
		failingKey, failingKey + judge.PutSuffix, failingKey + judge.RedriveSuffix, deadKey,
		lockKey, rwKey, queueKey, queueKey + judge.PutSuffix, boundedKey, boundedKey + judge.PutSuffix,
		barrierKey, doubleKey, gateKey, groupKey, counterKey,
	})
}

// steadyKeys returns those for which each process is served all the time, a few times in a
// second or two. Callers of LockAll may wait for longer, and so may those that want the locks that
// these hold meanwhile.
func steadyKeys() []string {
	return slices.Concat(severalKeys[2:], []string{
		lockKey, rwKey, keptKey, semaphoreKey, electionKey, barrierKey, doubleKey, doubleKey + judge.LeaveSuffix,
		queueKey, queueKey + judge.PutSuffix, boundedKey, boundedKey + judge.PutSuffix, failingKey, failingKey + judge.PutSuffix,
		groupKey, counterKey,
	})
}

// parseCount returns the value of a counter with that data.
func parseCount(data []byte) int64 {
	n, _ := strconv.ParseInt(string(data), 10, 64) // 0: there is no data
	return n
}

// dataOf returns the znode that a lock protects.
func dataOf(key string) string { return key + "-data" }

// fencedKeys returns what protects data.
func fencedKeys() []string {
	return slices.Concat([]string{lockKey, rwKey, keptKey, electionKey}, severalKeys, numbered(slots, slotKey), shardKeys())
}

// permanent returns the znodes that the run makes at its beginning.
func permanent() []string {
	paths := []string{"", donePath, plainPath}
	for _, key := range fencedKeys() {
		paths = append(paths, dataOf(key))
	}
	return paths
}

// doneName returns what the ack of an item leaves, but for its sequence number. token is that of
// the claim.
func doneName(item string, token int64) string {
	return fmt.Sprintf("%s/%s@%d-", donePath, item, token)
}

// parseDone returns the item and the token of what an ack has left.
func parseDone(name string) (item string, token int64) {
	item, rest, _ := strings.Cut(name, "@")
	fmt.Sscan(strings.ReplaceAll(rest, "-", " "), &token)
	return item, token
}

// mayRest reports whether a znode may be there while sessions live that hold and wait for nothing: a
// session keeps a receipt of its puts in each queue.
func mayRest(z judge.Znode) bool {
	return !z.Ephemeral || strings.HasSuffix(pathpkg.Dir(z.Path), "/puts")
}

// mayRemain reports whether a znode may stand at the end of a run: what was made at the
// beginning, the counter, of each queue its last segment, and of each barrier what opened it: that is
// left if the last member inside loses its session and no other one waits for its end. The next use
// deletes it.
func mayRemain(z judge.Znode) bool {
	path := strings.TrimPrefix(z.Path, root)
	if z.Ephemeral {
		return false
	}
	opened := []string{doubleKey, doubleKey + "/ready", barrierKey, barrierKey + "/round", barrierKey + "/round/ready"}
	if path == counterKey || slices.Contains(opened, path) || slices.Contains(permanent(), path) {
		return true
	}
	for _, q := range []string{queueKey, boundedKey, failingKey, deadKey} {
		below, ok := strings.CutPrefix(path+"/", q+"/")
		parts := strings.Split(below, "/") // the last one is empty
		if ok && (len(parts) <= 2 || len(parts) == 3 && parts[0] == "s") {
			return true
		}
	}
	return false
}
