package main

import (
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/soak/judge"
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
	donePath   = "/done" // what acks leave
	plainPath  = "/plain"
)

// servedKeys returns what workers wait for.
func servedKeys() []string {
	return []string{
		lockKey, rwKey, queueKey, queueKey + judge.PutSuffix, boundedKey, boundedKey + judge.PutSuffix,
		barrierKey, doubleKey, doubleKey + judge.LeaveSuffix, gateKey,
	}
}

// dataOf returns the znode that a lock protects.
func dataOf(key string) string { return key + "-data" }

// permanent are the znodes that the run makes at its beginning.
var permanent = []string{"", dataOf(lockKey), dataOf(rwKey), donePath, plainPath}

// mayRemain reports whether a znode may stand at the end of a run: what was made at the
// beginning, and of each queue its last segment.
func mayRemain(path string) bool {
	path = strings.TrimPrefix(path, root)
	for _, p := range permanent {
		if path == p {
			return true
		}
	}
	for _, q := range []string{queueKey, boundedKey} {
		below, ok := strings.CutPrefix(path+"/", q+"/")
		parts := strings.Split(below, "/") // the last one is empty
		if ok && (len(parts) <= 2 || len(parts) == 3 && parts[0] == "s") {
			return true
		}
	}
	return false
}
