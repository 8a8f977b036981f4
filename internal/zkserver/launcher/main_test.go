package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// replies returns the launcher's replies to lines of requests, by Request.ID.
func replies(t *testing.T, requests string) map[int64]zkserver.Reply {
	var out bytes.Buffer
	l := &launcher{running: map[int64]context.CancelFunc{}, replies: json.NewEncoder(&out)}
	l.serve(strings.NewReader(requests))
	all := map[int64]zkserver.Reply{}
	for line := range strings.Lines(out.String()) {
		var r zkserver.Reply
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		all[r.ID] = r
	}
	return all
}

func TestNoRequestIsCarriedOutBeforeFind(t *testing.T) {
	require.Equal(t, map[int64]zkserver.Reply{
		1: {ID: 1, Err: "create before find"},
		2: {ID: 2, Err: "kill before find"},
	}, replies(t, `{"ID":1,"Op":"create"}`+"\n"+`{"ID":2,"Op":"kill","Server":1}`+"\n"))
}

func TestACancelledRequestIsAnsweredOnce(t *testing.T) {
	t.Setenv("ZK_HARNESS", "none")
	all := replies(t, `{"ID":1,"Op":"find"}`+"\n"+`{"ID":1,"Op":"cancel"}`+"\n"+`{"ID":2,"Op":"cancel"}`+"\n")
	require.Len(t, all, 1)
	require.Contains(t, all[1].Err, "ZK_HARNESS=none")
}
