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

func churnKeys() []string {
	var keys []string
	for i := range churned {
		keys = append(keys, churnKey(i))
	}
	return keys
}

// curatorLines returns the lines that another library's client may have created, because
// it can stand in them.
func curatorLines(load string) []string {
	if load == loadLock {
		return churnKeys()
	}
	return slices.Concat([]string{lockKey, rwKey, keptKey, electionKey}, severalKeys, churnKeys())
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
func shardKeys() (keys []string) {
	for i := range shards {
		keys = append(keys, shardKey(i))
	}
	return keys
}

func shardKey(i int) string { return fmt.Sprint("/shard-", i) }

// servedKeys returns what workers wait for.
func servedKeys(load string) []string {
	if load == loadLock {
		return churnKeys()
	}
	return slices.Concat(severalKeys, churnKeys(), []string{
		semaphoreKey, electionKey, keptKey, allKey, rwKey + judge.DowngradeSuffix,
		failingKey, failingKey + judge.PutSuffix, failingKey + judge.RedriveSuffix, deadKey,
		lockKey, rwKey, queueKey, queueKey + judge.PutSuffix, boundedKey, boundedKey + judge.PutSuffix,
		barrierKey, doubleKey, doubleKey + judge.LeaveSuffix, gateKey, groupKey, counterKey,
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
	keys := append([]string{lockKey, rwKey, keptKey, electionKey}, severalKeys...)
	for i := range slots {
		keys = append(keys, slotKey(i))
	}
	return append(keys, shardKeys()...)
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

// mayRest reports whether a znode may be there while nobody holds or waits for anything: a
// session keeps a receipt of its puts in each queue.
func mayRest(path string) bool {
	dir, _ := pathpkg.Split(path)
	return strings.HasSuffix(dir, "/puts/")
}

// mayRemain is like the function, but where containers are not reaped all may remain.
func (o options) mayRemain(path string) bool { return o.curatorLines || mayRemain(path) }

// mayRemain reports whether a znode may stand at the end of a run: what was made at the
// beginning, the counter, and of each queue its last segment.
func mayRemain(path string) bool {
	path = strings.TrimPrefix(path, root)
	if path == counterKey || slices.Contains(permanent(), path) {
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
