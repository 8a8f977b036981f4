package session

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func TestDigestIDIsTheServersDigest(t *testing.T) {
	for credential, want := range map[string]string{
		"super:test":       "super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
		"user:pass:word":   zk.DigestACL(0, "user", "pass:word")[0].ID,
		"alice:":           zk.DigestACL(0, "alice", "")[0].ID,
		"zkrecipes:secret": zk.DigestACL(0, "zkrecipes", "secret")[0].ID,
	} {
		require.Equal(t, want, digestID([]byte(credential)), credential)
	}
}
