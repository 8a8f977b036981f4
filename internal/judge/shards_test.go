package judge

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// haveShards makes it a history of processes and two shards, "/a" and "/b".
func (h *trial) haveShards() {
	h.j = New(Config{Timeout: timeout, Slack: seconds(2), Shards: []string{"/a", "/b"}})
	h.serves(0, 60)
}

// owns tells of a shard that a process has, and writes to each half second.
func (h *trial) owns(process int, key string, token int64, from, until float64) {
	h.by(from, process, key, Event{Recipe: RecipeShards, Kind: Granted, Key: key, Token: token})
	for at := from; at < until; at += 0.5 {
		n := int32(2 * at)
		h.by(at, process, key, Event{Recipe: RecipeShards, Kind: Committed, Key: key, Token: token, Zxid: int64(n) + 1, Was: n, Version: n + 1})
	}
}

// rolls tells of a process that ends as it was told to, and starts again.
func (h *trial) rolls(process int, ends, starts float64) {
	h.by(ends, process, "", Event{Kind: Ended})
	h.by(starts, process, "", Event{Kind: Started})
}

// An owner must write 8 s after the last one has.
func TestAShardWithoutAnOwnerIsFound(t *testing.T) {
	foundAt(t, "owner", map[string]delay{
		"its second one has gone": {func(h *trial) {
			h.haveShards()
			h.owns(1, "/a", 1, 0.5, 10)
			h.owns(1, "/b", 2, 0.5, 60)
			h.owns(2, "/a", 3, 17, 30)
		}, 37.5},
		"it never had one": {func(h *trial) {
			h.haveShards()
			h.owns(1, "/a", 1, 0.5, 60)
		}, 8},
		"a fault of a process delays that": {func(h *trial) {
			h.haveShards()
			h.owns(1, "/a", 1, 0.5, 20)
			h.owns(1, "/b", 2, 0.5, 60)
			h.by(25, 3, "", Event{Kind: Killed})
		}, 33},
		"a restart does not": {func(h *trial) {
			h.haveShards()
			h.owns(1, "/a", 1, 0.5, 20)
			h.owns(1, "/b", 2, 0.5, 60)
			h.rolls(1, 20, 22)
		}, 27.5},
		"no: the processes rest": {func(h *trial) {
			h.haveShards()
			h.owns(1, "/a", 1, 0.5, 20)
			h.owns(1, "/b", 2, 0.5, 20)
			h.j.Take(Event{At: seconds(20), Kind: Resting})
		}, 0},
	})
}

func TestSharesThatAreNotEvenAreFound(t *testing.T) {
	h := newTrial(t)
	h.haveShards()
	h.owns(1, "/a", 1, 0.5, 60)
	h.owns(1, "/b", 2, 0.5, 20)
	h.owns(2, "/b", 3, 20, 60)
	h.j.JudgeUntil(seconds(10))
	h.j.Even(seconds(10), 2)
	h.finds(10, "even")
	h.j.JudgeUntil(seconds(30))
	h.j.Even(seconds(30), 2)
	h.finds(30, "even")
}

// For 8 s after a fault, or after a process has lost its session.
func TestSharesNeedNotBeEvenSoonAfterAFault(t *testing.T) {
	h := newTrial(t)
	h.haveShards()
	h.owns(1, "/a", 1, 0.5, 60)
	h.owns(1, "/b", 2, 0.5, 60)
	h.by(10, 3, "", Event{Kind: Killed})
	h.by(20, 1, "", Event{Kind: Expired})
	for _, at := range []float64{17, 27} {
		h.j.JudgeUntil(seconds(at))
		require.True(t, h.j.Even(seconds(at), 2))
		h.finds(at)
	}
	h.j.JudgeUntil(seconds(28))
	require.False(t, h.j.Even(seconds(28), 2))
	h.finds(28, "even")
}
